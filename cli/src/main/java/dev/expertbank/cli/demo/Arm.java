package dev.expertbank.cli.demo;

import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import dev.expertbank.api.ExecutionProviders;
import dev.expertbank.api.Registration;
import java.nio.file.Path;
import java.util.Map;
import java.util.Optional;

/** One way to open the model. */
enum Arm {
  EXPERTBANK("expertbank", "expertbank"),
  ORT_NO_PREPACKING("ort-cpu-no-prepacking", "ONNX Runtime CPU, session.disable_prepacking=1"),
  ORT_DEFAULT("ort-cpu-default", "ONNX Runtime CPU, as it comes");

  private final String id;
  private final String title;

  Arm(String id, String title) {
    this.id = id;
    this.title = title;
  }

  /** Name in JSON. */
  String id() {
    return id;
  }

  String title() {
    return title;
  }

  /**
   * An open session and what closes with it.
   *
   * @param startSeconds time to find and register the provider; once per process
   * @param loadSeconds time of {@code createSession}
   */
  record Opened(
      OrtSession.SessionOptions options,
      Optional<Registration> registration,
      double startSeconds,
      double loadSeconds,
      OrtSession session)
      implements AutoCloseable {
    @Override
    public void close() throws OrtException {
      session.close();
      registration.ifPresent(Registration::close);
      options.close();
    }
  }

  Opened open(OrtEnvironment environment, Path model, int threads) throws OrtException {
    var options = new OrtSession.SessionOptions();
    Optional<Registration> registration = Optional.empty();
    long start = System.nanoTime();
    try {
      // Left alone, ONNX Runtime counts the machine's cores, not those that the process may use.
      options.setIntraOpNumThreads(threads);
      switch (this) {
        case EXPERTBANK ->
            registration =
                Optional.of(
                    ExecutionProviders.require("CudaQMoE")
                        .register(environment, options, Map.of("fallback", "allow")));
        case ORT_NO_PREPACKING -> options.addConfigEntry("session.disable_prepacking", "1");
        case ORT_DEFAULT -> {
          // Nothing to add: this is the arm without options.
        }
      }
      long started = System.nanoTime();
      OrtSession session = environment.createSession(model.toString(), options);
      long loaded = System.nanoTime();
      return new Opened(
          options, registration, (started - start) * 1e-9, (loaded - started) * 1e-9, session);
    } catch (OrtException | RuntimeException e) {
      registration.ifPresent(Registration::close);
      options.close();
      throw e;
    }
  }
}
