package dev.expertbank.tests.bench;

import dev.expertbank.model.OnnxInitializer;
import dev.expertbank.model.OnnxModelReader;
import dev.expertbank.qmoe.device.cuda.CudaCopyRates;
import dev.expertbank.qmoe.device.cuda.CudaCopyRates.Rate;
import dev.expertbank.spi.ConstantData;
import dev.expertbank.tests.TestDevice;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;

/**
 * Promotion copies of experts of 14 MB against one large copy from page-locked memory. Argument,
 * optional: layers of the model that is copied from.
 */
public final class GpuCopies {
  private GpuCopies() {}

  public static void main(String[] arguments) throws Exception {
    if (TestDevice.isHost()) {
      throw new IllegalArgumentException("the host has no copies of this kind: measure a GPU");
    }
    DecodeModel model = DecodeModel.ofLayers(Bench.argument(arguments, 0, 4));
    List<Rate> rates = CudaCopyRates.measure(TestDevice.name(), model.data(), firstLayer(model));
    double large = rates.getFirst().bytesPerSecond();
    List<Map<String, Object>> arms = new ArrayList<>();
    System.out.printf("%-52s %8s %10s%n", "copies", "GB/s", "of the 1st");
    for (Rate rate : rates) {
      System.out.printf(
          Locale.ROOT,
          "%-52s %8.2f %9.1f%%%n",
          rate.what(),
          rate.bytesPerSecond() * 1e-9,
          100 * rate.bytesPerSecond() / large);
      Map<String, Object> arm = new LinkedHashMap<>();
      arm.put("what", rate.what());
      arm.put("bytesPerSecond", rate.bytesPerSecond());
      arm.put("ofFirst", rate.bytesPerSecond() / large);
      arms.add(arm);
    }
    Bench.write(Map.of("arms", arms));
  }

  private static CudaCopyRates.Experts firstLayer(DecodeModel model) {
    List<ConstantData.External> tensors =
        OnnxModelReader.read(model.file())
            .initializers()
            .map(OnnxInitializer::data)
            .filter(ConstantData.External.class::isInstance)
            .map(ConstantData.External.class::cast)
            .limit(6)
            .toList();
    int experts = model.model().experts();
    return new CudaCopyRates.Experts(
        experts,
        tensors.stream().map(tensor -> tensor.byteLength() / experts).toList(),
        tensors.stream().map(ConstantData.External::offset).toList());
  }
}
