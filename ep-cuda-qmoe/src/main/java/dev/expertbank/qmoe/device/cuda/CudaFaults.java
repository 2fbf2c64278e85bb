package dev.expertbank.qmoe.device.cuda;

import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.FaultPlan.Operation;

/**
 * The calls of the driver that a test wants to fail, on one device.
 *
 * @param device its name and number, for messages
 */
record CudaFaults(String device, FaultPlan plan) {
  /**
   * Asked before a call of the driver.
   *
   * @throws CudaException as the driver would make it, instead of the call
   */
  void check(Operation operation, CudaFunction function, long firstArgument) {
    if (plan.fails(operation)) {
      throw CudaDriver.failure(device, function, CudaDriver.ERROR_UNKNOWN, firstArgument);
    }
  }
}
