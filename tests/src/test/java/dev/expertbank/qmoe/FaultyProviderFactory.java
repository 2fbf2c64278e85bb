package dev.expertbank.qmoe;

import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.spi.Availability;
import dev.expertbank.spi.ExecutionProvider;
import dev.expertbank.spi.ExecutionProviderFactory;
import dev.expertbank.spi.OptionSpec;
import dev.expertbank.spi.ProviderOptions;
import dev.expertbank.spi.SessionFacts;
import java.util.List;

/** The provider on a device of which one operation fails. */
public final class FaultyProviderFactory implements ExecutionProviderFactory {
  /** For the sessions that are created next. */
  public static volatile FaultPlan plan = FaultPlan.none();

  @Override
  public String name() {
    return "FaultyQMoE";
  }

  @Override
  public int priority() {
    return 0;
  }

  @Override
  public Availability probe() {
    return new Availability.Available(Devices.available());
  }

  @Override
  public List<OptionSpec<?>> options() {
    return QMoeOptions.SPECS;
  }

  @Override
  public ExecutionProvider create(ProviderOptions options, SessionFacts facts) {
    QMoeOptions parsed = QMoeOptions.of(options);
    return new QMoeProvider(parsed, Devices.open(parsed, facts, plan));
  }
}
