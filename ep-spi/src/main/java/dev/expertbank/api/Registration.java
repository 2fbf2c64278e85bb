package dev.expertbank.api;

import dev.expertbank.ort.PluginLibrary;
import dev.expertbank.spi.ProviderSession;
import java.util.ArrayList;
import java.util.List;

/**
 * A provider in one {@code SessionOptions}. After {@link #close}, no further session can be created
 * from those options; sessions that are open run on until they are closed. Safe from any thread.
 */
public final class Registration implements AutoCloseable {
  private final PluginLibrary library;
  private final String id;
  private final Sessions sessions = new Sessions();

  Registration(PluginLibrary library) {
    this.library = library;
    this.id = library.listen(sessions);
  }

  /** The provider option by which ONNX Runtime hands this registration to its sessions. */
  String id() {
    return id;
  }

  /** The open sessions that use this registration, in the order of their creation. */
  public List<ProviderSession> sessions() {
    return sessions.snapshot();
  }

  /** Closing twice is allowed. */
  @Override
  public void close() {
    library.unlisten(id);
  }

  private static final class Sessions implements PluginLibrary.SessionListener {
    private final List<ProviderSession> open = new ArrayList<>();

    synchronized List<ProviderSession> snapshot() {
      return List.copyOf(open);
    }

    @Override
    public synchronized void sessionOpened(ProviderSession session) {
      open.add(session);
    }

    @Override
    public synchronized void sessionClosed(ProviderSession session) {
      open.remove(session);
    }
  }
}
