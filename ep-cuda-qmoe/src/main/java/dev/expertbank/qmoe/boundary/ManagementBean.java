package dev.expertbank.qmoe.boundary;

import dev.expertbank.residency.ResidencyMXBean;
import dev.expertbank.residency.ResidencyMetrics;
import java.lang.management.ManagementFactory;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;
import javax.management.JMException;
import javax.management.ObjectName;
import javax.management.StandardMBean;

/** The metrics of one session in the platform's MBean server, for as long as the session lives. */
final class ManagementBean implements AutoCloseable {
  private static final System.Logger LOG = System.getLogger(ManagementBean.class.getName());

  /** Done once: by whoever comes first. */
  private static final AtomicBoolean WARM = new AtomicBoolean();

  private final String name;

  private record Attributes(Supplier<ResidencyMetrics> metrics) implements ResidencyMXBean {
    @Override
    public double getByteHitRate() {
      return metrics.get().byteHitRate();
    }

    @Override
    public boolean isArmed() {
      return metrics.get().armed();
    }

    @Override
    public long getHits() {
      return metrics.get().totals().use().hits();
    }

    @Override
    public long getMisses() {
      return metrics.get().totals().use().misses();
    }

    @Override
    public long getPromotedBytes() {
      return metrics.get().totals().moves().startedBytes();
    }

    @Override
    public long getResidentBytes() {
      return metrics.get().residentBytes();
    }

    @Override
    public long getBudgetBytes() {
      return metrics.get().budgetBytes();
    }

    @Override
    public long getHeldBytes() {
      return metrics.get().heldBytes();
    }

    @Override
    public long getPeakCommittedBytes() {
      return metrics.get().peakCommittedBytes();
    }

    @Override
    public int getQuarantinedSlots() {
      return metrics.get().quarantinedSlots();
    }
  }

  /**
   * Has the platform's server and all that it needs for the bean loaded by a thread of its own,
   * which takes an eighth of a second.
   */
  static void warmUp() {
    if (WARM.compareAndSet(false, true)) {
      Thread.ofPlatform()
          .daemon()
          .name("expertbank-management")
          .start(
              () -> {
                ManagementFactory.getPlatformMBeanServer();
                bean(ManagementBean::noMetrics);
              });
    }
  }

  private static StandardMBean bean(Supplier<ResidencyMetrics> metrics) {
    return new StandardMBean(new Attributes(metrics), ResidencyMXBean.class, true);
  }

  private static ResidencyMetrics noMetrics() {
    throw new IllegalStateException("nobody can ask a bean that was not registered");
  }

  /**
   * Registers; a server that refuses is logged and costs the session nothing.
   *
   * @param number unique among the open sessions of the device
   */
  ManagementBean(String device, long number, Supplier<ResidencyMetrics> metrics) {
    name =
        "dev.expertbank:type=Residency,device=" + ObjectName.quote(device) + ",session=" + number;
    try {
      ManagementFactory.getPlatformMBeanServer().registerMBean(bean(metrics), new ObjectName(name));
    } catch (JMException e) {
      LOG.log(System.Logger.Level.WARNING, "no management bean " + name, e);
    }
  }

  @Override
  public void close() {
    try {
      ObjectName registered = new ObjectName(name);
      if (ManagementFactory.getPlatformMBeanServer().isRegistered(registered)) {
        ManagementFactory.getPlatformMBeanServer().unregisterMBean(registered);
      }
    } catch (JMException e) {
      LOG.log(System.Logger.Level.WARNING, "the management bean " + name + " stays", e);
    }
  }
}
