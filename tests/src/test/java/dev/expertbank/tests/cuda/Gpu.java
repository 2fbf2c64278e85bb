package dev.expertbank.tests.cuda;

import dev.expertbank.qmoe.device.FaultPlan;
import dev.expertbank.qmoe.device.cuda.CudaDevice;
import dev.expertbank.qmoe.device.cuda.CudaDeviceInfo;
import dev.expertbank.qmoe.device.cuda.CudaProbe;
import java.util.OptionalLong;

/** The GPU of the tests. */
final class Gpu {
  private Gpu() {}

  static CudaDeviceInfo info() {
    return CudaProbe.run().usable().getFirst();
  }

  static CudaDevice open() {
    return open(FaultPlan.none());
  }

  static CudaDevice open(FaultPlan faults) {
    return new CudaDevice(info(), OptionalLong.empty(), faults);
  }

  static CudaDevice openPinning(long limit) {
    return openPinning(limit, FaultPlan.none());
  }

  static CudaDevice openPinning(long limit, FaultPlan faults) {
    return new CudaDevice(info(), OptionalLong.of(limit), faults);
  }
}
