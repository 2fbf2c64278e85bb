package dev.expertbank.model;

import dev.expertbank.spi.ConstantData;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.ExternalDataFile;
import dev.expertbank.spi.Printable;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.TreeMap;

/**
 * A file of external data that a model refers to, and whether it has what the model says it has.
 *
 * @param location as the model states it
 * @param file empty when it cannot be used
 * @param problem the first thing that is wrong with the file or with a range in it
 */
public record DataFile(
    String location, Optional<ExternalDataFile> file, Optional<EpException> problem) {
  /** The files of all initializers, by location. Nothing is read from them. */
  public static List<DataFile> of(OnnxModel model) {
    Map<String, DataFile> files = new TreeMap<>();
    model
        .initializers()
        .forEach(
            initializer -> {
              if (initializer.data() instanceof ConstantData.External external) {
                files.compute(
                    external.location(),
                    (location, known) ->
                        (known == null ? resolve(model, location) : known)
                            .check(initializer, external));
              }
            });
    return List.copyOf(files.values());
  }

  private static DataFile resolve(OnnxModel model, String location) {
    try {
      ExternalDataFile file = ExternalDataFile.resolve(model.directory(), location);
      return new DataFile(location, Optional.of(file), Optional.empty());
    } catch (EpException e) {
      return new DataFile(location, Optional.empty(), Optional.of(e));
    }
  }

  private DataFile check(OnnxInitializer initializer, ConstantData.External range) {
    if (problem.isPresent() || file.isEmpty()) {
      return this;
    }
    try {
      file.get()
          .checkRange(
              range.offset(),
              range.byteLength(),
              "initializer " + Printable.quote(initializer.name()));
      return this;
    } catch (EpException e) {
      return new DataFile(location, file, Optional.of(e));
    }
  }
}
