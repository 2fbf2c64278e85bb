package dev.expertbank.qmoe.device.host;

import dev.expertbank.qmoe.bank.AddressTable;
import dev.expertbank.qmoe.device.Device;
import dev.expertbank.qmoe.device.QMoeKernel;
import dev.expertbank.spi.qmoe.QMoeSpec;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * The CPU. Keeps the workspaces of ended runs for later ones: after warm-up a run allocates none.
 * The number kept is the largest number of runs that were in flight at once.
 */
public final class HostDevice implements Device {
  private static final System.Logger LOG = System.getLogger(HostDevice.class.getName());

  private final Deque<HostRun> free = new ArrayDeque<>();
  private boolean closed;

  public HostDevice() {
    LOG.log(System.Logger.Level.DEBUG, () -> "host kernels: " + HostKernels.tier());
  }

  @Override
  public QMoeKernel prepare(QMoeSpec spec, AddressTable table) {
    return new HostQMoeKernel(this, spec, table);
  }

  /** A run with a workspace of at least that size; give it back with {@link #release}. */
  HostRun acquire(long workspaceBytes) {
    HostRun run;
    synchronized (free) {
      run = free.pollLast();
    }
    if (run != null && run.workspaceBytes() >= workspaceBytes) {
      return run;
    }
    if (run != null) {
      run.close();
    }
    return new HostRun(workspaceBytes);
  }

  void release(HostRun run) {
    synchronized (free) {
      if (!closed) {
        free.addLast(run);
        return;
      }
    }
    run.close();
  }

  @Override
  public void close() {
    synchronized (free) {
      closed = true;
      free.forEach(HostRun::close);
      free.clear();
    }
  }
}
