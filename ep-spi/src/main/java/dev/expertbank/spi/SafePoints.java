package dev.expertbank.spi;

import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;

/** The moments at which no run of a session is in flight. Safe from any thread. */
public interface SafePoints {
  /**
   * Calls the action at once when no run is in flight, else right after the boundary that follows
   * the last of them. Runs that begin meanwhile wait for it, so it has to be short.
   *
   * @param action called on this thread or on that of a run; not called if the future is cancelled
   *     before
   * @return what the action returned or threw; {@code session.closed} when the session is closed
   *     first
   */
  <T> CompletableFuture<T> next(Supplier<T> action);
}
