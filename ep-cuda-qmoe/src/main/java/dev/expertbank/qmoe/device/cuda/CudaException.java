package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.spi.EpException;

/** A call of the driver that failed, with code {@code device.cuda}. */
public final class CudaException extends EpException {
  private static final long serialVersionUID = 1L;

  private final int result;

  /**
   * A failed call.
   *
   * @param device its name and number
   * @param call the function with its arguments
   * @param result what the driver returned
   * @param resultText CUDA's name and text for it
   */
  CudaException(String device, String call, int result, String resultText) {
    super("device.cuda", call + " on " + device + " failed: " + resultText);
    this.result = result;
  }

  /** The {@code CUresult}. */
  int result() {
    return result;
  }
}
