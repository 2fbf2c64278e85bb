package dev.expertbank.residency;

/**
 * What prefill has streamed through the two slots of a device.
 *
 * @param experts copies that were computed on
 * @param bytes that they read
 * @param copyNanos time that the copies took
 * @param waitNanos time that computation waited for them; the rest of {@code copyNanos} overlapped
 * @param inPlace cold experts that a prefill run read in place, because the slots were in use or a
 *     copy failed
 */
public record PrefillStreamMetrics(
    long experts, long bytes, long copyNanos, long waitNanos, long inPlace) {
  public static final PrefillStreamMetrics NONE = new PrefillStreamMetrics(0, 0, 0, 0, 0);

  public PrefillStreamMetrics plus(PrefillStreamMetrics more) {
    return new PrefillStreamMetrics(
        experts + more.experts,
        bytes + more.bytes,
        copyNanos + more.copyNanos,
        waitNanos + more.waitNanos,
        inPlace + more.inPlace);
  }
}
