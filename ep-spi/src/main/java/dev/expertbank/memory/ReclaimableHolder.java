package dev.expertbank.memory;

/** A holder of mapped memory that can free some when another holder must grow. */
public interface ReclaimableHolder {
  /** What this holder maps through; read once, at registration. */
  MappedAllowance allowance();

  /**
   * Who is asked first: the lowest number; among equals the oldest holder. Expert weights, which
   * can be read from the file, are 0. Read once, at registration.
   */
  int reclaimPriority();

  /**
   * Frees memory and unmaps it from {@link #allowance()} until no more than the target is mapped.
   * The allowance's limit has moved already, so nothing that is freed can be mapped again
   * meanwhile. Only what the allowance says afterwards counts; a holder that cannot get there
   * returns or throws, and gets its limit back.
   *
   * <p>Runs on the thread of the holder that grows, with no lock of the books held. It may use any
   * lease or allowance, must not prepare growth itself, and must bound every wait: the thread that
   * grows may hold locks of its own session.
   *
   * @param targetBytes what may stay mapped
   */
  void reclaimMapped(long targetBytes);
}
