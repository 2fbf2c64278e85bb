package dev.expertbank.state;

import dev.expertbank.spi.Printable;
import java.io.Serializable;

/** Why a state group cannot run. */
public sealed interface StateRefusal extends Serializable {
  /** The stable code of the error. */
  String code();

  /** What was wrong, where, and what to do. */
  String message();

  /** The compression ratio has no kernel. */
  record UnsupportedRatio(int ratio) implements StateRefusal {
    @Override
    public String code() {
      return "state.ratio";
    }

    @Override
    public String message() {
      return "The compression ratio is " + ratio + "; only 4 and 128 are supported.";
    }
  }

  /** The attribute names no known format. */
  record UnknownCacheFormat(String name) implements StateRefusal {
    @Override
    public String code() {
      return "state.cache-format";
    }

    @Override
    public String message() {
      return "The cache format "
          + Printable.quote(name)
          + " is not known; it must be one of: "
          + StateCacheFormat.ids()
          + ".";
    }
  }

  /** Heads or their size are missing. */
  record InvalidHeadGeometry(int numHeads, int headDim) implements StateRefusal {
    @Override
    public String code() {
      return "state.head-geometry";
    }

    @Override
    public String message() {
      return "The number of heads ("
          + numHeads
          + ") and the head dimension ("
          + headDim
          + ") must both be positive.";
    }
  }

  /** More of a head would be rotated than there is. */
  record RopeExceedsHeadDim(int qkRopeHeadDim, int headDim) implements StateRefusal {
    @Override
    public String code() {
      return "state.rope-dim";
    }

    @Override
    public String message() {
      return "The rotary dimension "
          + qkRopeHeadDim
          + " must be between 0 and the head dimension "
          + headDim
          + ".";
    }
  }

  /** The state would belong to more than one device, or to none. */
  record MultiDeviceAmbiguity(int deviceCount) implements StateRefusal {
    @Override
    public String code() {
      return "state.multi-device";
    }

    @Override
    public String message() {
      return "A state group belongs to exactly one device, but it was given "
          + deviceCount
          + "; split the group by device.";
    }
  }

  /** An input that carries the state from step to step is not connected. */
  record MissingStateEdge(int input, String name) implements StateRefusal {
    @Override
    public String code() {
      return "state.missing-edge";
    }

    @Override
    public String message() {
      return "Input " + input + " (" + name + ") is not connected, so the state would be lost.";
    }
  }

  /** Ratio 4 stores its entries in 8 bits. */
  record Ratio4RequiresFp8Cache(StateCacheFormat cacheFormat) implements StateRefusal {
    @Override
    public String code() {
      return "state.ratio-4-format";
    }

    @Override
    public String message() {
      return "Compression ratio 4 needs the cache format "
          + StateCacheFormat.FP8_E4M3_BLOCK64
          + ", not "
          + cacheFormat
          + ".";
    }
  }

  /** Ratio 4 selects entries by an index of fixed width. */
  record Ratio4RequiresIndexHeadDim128(int indexHeadDim) implements StateRefusal {
    @Override
    public String code() {
      return "state.ratio-4-index";
    }

    @Override
    public String message() {
      return "Compression ratio 4 needs an index head dimension of 128, not " + indexHeadDim + ".";
    }
  }

  /** Ratio 128 has no kernel for 4 bits. */
  record Ratio128RejectsFp4() implements StateRefusal {
    @Override
    public String code() {
      return "state.ratio-128-format";
    }

    @Override
    public String message() {
      return "Compression ratio 128 does not work with the cache format "
          + StateCacheFormat.FP4_E2M1_BLOCK32
          + "; use "
          + StateCacheFormat.F32
          + " or "
          + StateCacheFormat.FP8_E4M3_BLOCK64
          + ".";
    }
  }

  /** The group is valid, but the first runtime (C1) does not run its ratio. */
  record UnsupportedC1Ratio(int ratio) implements StateRefusal {
    @Override
    public String code() {
      return "state.c1-ratio";
    }

    @Override
    public String message() {
      return "The C1 runtime runs compression ratio 128 only, not " + ratio + ".";
    }
  }

  /** The group is one of another device than the ledger. */
  record DeviceMismatch(int deviceOrdinal, int ledgerOrdinal) implements StateRefusal {
    @Override
    public String code() {
      return "state.device-mismatch";
    }

    @Override
    public String message() {
      return "A state group of device "
          + deviceOrdinal
          + " cannot be charged to the ledger of device "
          + ledgerOrdinal
          + ".";
    }
  }

  /**
   * The group does not fit now. The only refusal that is an out-of-memory error: the others say
   * that a group can never run.
   *
   * @param resident bytes of the device that are claimed already, by whomever
   * @param limit what all claims on the device may sum up to
   */
  record OutOfMemory(long requestId, int deviceOrdinal, long requested, long resident, long limit)
      implements StateRefusal {
    @Override
    public String code() {
      return "state.out-of-memory";
    }

    @Override
    public String message() {
      return "The state of request "
          + requestId
          + " needs "
          + requested
          + " bytes on device "
          + deviceOrdinal
          + ", where "
          + resident
          + " of "
          + limit
          + " are claimed; raise the memory budget, or run fewer requests at once.";
    }
  }
}
