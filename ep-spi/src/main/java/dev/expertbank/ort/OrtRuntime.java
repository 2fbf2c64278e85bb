package dev.expertbank.ort;

import dev.expertbank.natives.Native;
import dev.expertbank.spi.EpException;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.util.EnumMap;
import java.util.Map;
import java.util.Objects;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * The ONNX Runtime that loaded the bridge. Its function tables are read only after its version
 * string has been parsed and found in range.
 */
final class OrtRuntime {
  /** The oldest minor version that has every function the host calls, and that it is tested on. */
  static final int MIN_MINOR = 28;

  /** The API version whose structure layouts {@link OrtStructField} has. */
  static final int LAYOUT_VERSION = 29;

  private static final Pattern VERSION = Pattern.compile("1\\.(\\d+)\\..*");

  private static volatile @Nullable OrtRuntime current;

  private final String version;
  private final int apiVersion;
  private final long api;
  private final Map<OrtFunction, MethodHandle> handles = new EnumMap<>(OrtFunction.class);

  private OrtRuntime(String version, int apiVersion, long api) {
    this.version = version;
    this.apiVersion = apiVersion;
    this.api = api;
    long getEpApi = pointerAt(api, OrtFunction.GET_EP_API.index());
    long epApi = (long) call(getEpApi, OrtFunction.GET_EP_API.signature());
    for (OrtFunction function : OrtFunction.values()) {
      long table = function.table() == OrtFunction.Table.API ? api : epApi;
      FunctionDescriptor descriptor = Signature.descriptor(function.signature());
      handles.put(function, Native.link(pointerAt(table, function.index()), descriptor));
    }
  }

  /**
   * Takes the runtime from the {@code OrtApiBase} that ONNX Runtime gave to the bridge. Later calls
   * must name the same runtime: one process has one.
   *
   * @throws EpException {@code ort.version} if the version is not supported
   */
  static synchronized void bind(long apiBase) {
    MemorySegment base = Native.view(apiBase, 16);
    long getVersionString = base.get(ValueLayout.JAVA_LONG, 8);
    String version = Native.string((long) call(getVersionString, "P()"));
    int minor = checkedMinor(version);
    int apiVersion = Math.min(minor, LAYOUT_VERSION);
    long getApi = base.get(ValueLayout.JAVA_LONG, 0);
    long api = (long) call(getApi, "P(I)", apiVersion);
    if (api == 0) {
      throw new EpException(
          "ort.version", "ONNX Runtime " + version + " has no API version " + apiVersion);
    }
    OrtRuntime bound = current;
    if (bound == null) {
      current = new OrtRuntime(version, apiVersion, api);
    } else if (bound.api != api) {
      throw new EpException(
          "ort.duplicate",
          "two ONNX Runtime libraries ("
              + bound.version
              + " and "
              + version
              + ") are loaded in this process; keep one on the class path");
    }
  }

  /** The minor version, which is the API version. */
  static int checkedMinor(String version) {
    Matcher matcher = VERSION.matcher(version);
    int minor = matcher.matches() ? Integer.parseInt(matcher.group(1)) : -1;
    if (minor < MIN_MINOR) {
      throw new EpException(
          "ort.version",
          "ONNX Runtime '"
              + version
              + "' is not supported: expertbank needs 1."
              + MIN_MINOR
              + " or newer; put com.microsoft.onnxruntime:onnxruntime:1.29.0 on the class path");
    }
    return minor;
  }

  static OrtRuntime current() {
    OrtRuntime bound = current;
    if (bound == null) {
      throw new IllegalStateException("ONNX Runtime has not loaded the bridge yet");
    }
    return bound;
  }

  String version() {
    return version;
  }

  /** What {@code ort_version_supported} must say in the structures that we fill. */
  int apiVersion() {
    return apiVersion;
  }

  MethodHandle handle(OrtFunction function) {
    return Objects.requireNonNull(handles.get(function));
  }

  private static long pointerAt(long table, int index) {
    return Native.view(table, 8L * index + 8).get(ValueLayout.JAVA_LONG, 8L * index);
  }

  /**
   * Calls a function once, without keeping a handle: for what comes before the tables are known.
   */
  private static Object call(long function, String signature, Object... arguments) {
    try {
      return Native.link(function, Signature.descriptor(signature)).invokeWithArguments(arguments);
    } catch (Throwable e) {
      throw new IllegalStateException("call into ONNX Runtime failed", e);
    }
  }
}
