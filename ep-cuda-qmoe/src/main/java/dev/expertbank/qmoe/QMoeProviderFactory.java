package dev.expertbank.qmoe;

import dev.expertbank.natives.NativeLibrary;
import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.spi.Availability;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.ExecutionProvider;
import dev.expertbank.spi.ExecutionProviderFactory;
import dev.expertbank.spi.OptionSpec;
import dev.expertbank.spi.ProviderOptions;
import dev.expertbank.spi.SessionFacts;
import java.util.List;

/** The service: {@code ExecutionProviders.require("CudaQMoE")}. */
public final class QMoeProviderFactory implements ExecutionProviderFactory {
  @Override
  public String name() {
    return "CudaQMoE";
  }

  @Override
  public int priority() {
    return 0;
  }

  @Override
  public Availability probe() {
    try {
      NativeLibrary.platform();
      return new Availability.Available(Devices.available());
    } catch (EpException e) {
      return new Availability.Unavailable(List.of(String.valueOf(e.getMessage())));
    }
  }

  @Override
  public List<OptionSpec<?>> options() {
    return QMoeOptions.SPECS;
  }

  @Override
  public ExecutionProvider create(ProviderOptions options, SessionFacts facts) {
    QMoeOptions parsed = QMoeOptions.of(options);
    return new QMoeProvider(parsed, Devices.open(parsed, facts, FaultPlan.none()));
  }
}
