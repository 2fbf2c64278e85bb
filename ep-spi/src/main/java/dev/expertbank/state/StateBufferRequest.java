package dev.expertbank.state;

/**
 * One buffer that a state group needs for its whole life.
 *
 * @param name what messages call the buffer
 * @param bytes its size; only scratch may be empty
 */
public record StateBufferRequest(StateByteClass byteClass, String name, long bytes) {
  public StateBufferRequest {
    if (bytes < 0 || (bytes == 0 && byteClass != StateByteClass.SCRATCH)) {
      throw new IllegalArgumentException(
          "buffer '"
              + name
              + "' of class "
              + byteClass
              + " has "
              + bytes
              + " bytes: leave out a buffer that is not needed");
    }
  }

  /** What is charged and allocated: an empty workspace still gets one byte and so an address. */
  public long chargedBytes() {
    return Math.max(bytes, 1);
  }
}
