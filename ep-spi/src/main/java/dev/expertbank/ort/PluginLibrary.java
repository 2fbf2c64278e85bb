package dev.expertbank.ort;

import dev.expertbank.natives.Native;
import dev.expertbank.natives.NativeLibrary;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.ExecutionProvider;
import dev.expertbank.spi.ExecutionProviderFactory;
import dev.expertbank.spi.MemoryDevice;
import dev.expertbank.spi.OptionSpec;
import dev.expertbank.spi.ProviderOptions;
import dev.expertbank.spi.ProviderSession;
import java.lang.foreign.FunctionDescriptor;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;
import java.lang.foreign.ValueLayout;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;
import org.jspecify.annotations.Nullable;

/**
 * A provider as the library that ONNX Runtime registers: a copy of the bridge whose two entry
 * points call this object. Instances live as long as the process.
 */
public final class PluginLibrary {
  /** ONNX Runtime's convention for the names of execution providers. */
  private static final String EP_NAME_SUFFIX = "ExecutionProvider";

  /** The option that says which registration a session belongs to; set by the host only. */
  public static final String REGISTRATION_KEY = "registration";

  private static final OptionSpec<Fallback> FALLBACK =
      OptionSpec.choice(
          "fallback",
          Fallback.class,
          Fallback.DENY,
          "what happens to a node that the provider should run and cannot: deny fails session "
              + "creation with the reason, allow leaves the node to other providers");

  /** What happens to a refused node. */
  private enum Fallback {
    DENY,
    ALLOW
  }

  private final ExecutionProviderFactory providerFactory;
  private final Path path;
  private final Map<String, SessionListener> listeners = new ConcurrentHashMap<>();
  private final Map<PluginSession, SessionListener> owners = new ConcurrentHashMap<>();
  private final AtomicLong lastId = new AtomicLong();
  private @Nullable PluginFactory factory;

  /** Hears of the sessions that are created with a registration's options. */
  public interface SessionListener {
    void sessionOpened(ProviderSession session);

    void sessionClosed(ProviderSession session);
  }

  private PluginLibrary(ExecutionProviderFactory providerFactory, Path path) {
    this.providerFactory = providerFactory;
    this.path = path;
  }

  /**
   * Loads the provider's copy of the bridge and installs its entry points.
   *
   * @throws EpException {@code native.…} if the bridge cannot be extracted or loaded
   */
  public static PluginLibrary load(ExecutionProviderFactory providerFactory) {
    Path path = NativeLibrary.extractCopy("expertbank_ort_bridge", providerFactory.name());
    PluginLibrary library = new PluginLibrary(providerFactory, path);
    library.install();
    return library;
  }

  private void install() {
    SymbolLookup symbols = Native.library(path);
    MemorySegment symbol = symbols.findOrThrow("expertbank_install");
    MethodHandle install =
        Native.link(
            symbol.address(),
            FunctionDescriptor.ofVoid(ValueLayout.JAVA_LONG, ValueLayout.JAVA_LONG));
    try {
      MethodHandles.Lookup lookup = MethodHandles.lookup();
      MethodHandle create =
          lookup
              .findVirtual(
                  PluginLibrary.class,
                  "createEpFactories",
                  MethodType.methodType(
                      long.class,
                      long.class,
                      long.class,
                      long.class,
                      long.class,
                      long.class,
                      long.class))
              .bindTo(this);
      MethodHandle release =
          lookup.findStatic(
              PluginLibrary.class,
              "releaseEpFactory",
              MethodType.methodType(long.class, long.class));
      install.invokeExact(
          Native.upcallStub(
              Upcall.guarded(create, Upcall.OnThrow.STATUS),
              Signature.descriptor("P(P,P,P,P,J,P)")),
          Native.upcallStub(
              Upcall.guarded(release, Upcall.OnThrow.ZERO), Signature.descriptor("P(P)")));
    } catch (Throwable e) {
      throw new LinkageError("the bridge's installer failed", e);
    }
  }

  /** Absolute path of the library to register with ONNX Runtime. */
  public Path path() {
    return path;
  }

  /** The name by which ONNX Runtime lists the provider. */
  public String epName() {
    return providerFactory.name() + EP_NAME_SUFFIX;
  }

  /**
   * Connects a listener to the sessions whose provider options have {@link #REGISTRATION_KEY} set
   * to the returned number.
   */
  public String listen(SessionListener listener) {
    String id = Long.toString(lastId.incrementAndGet());
    listeners.put(id, listener);
    return id;
  }

  /** Sessions can no longer be created with that number; the open ones are still reported. */
  public void unlisten(String id) {
    listeners.remove(id);
  }

  /**
   * Checks provider options as session creation would.
   *
   * @throws EpException {@code options.…}
   */
  public void checkOptions(Map<String, String> options) {
    parse(options);
  }

  private ProviderOptions parse(Map<String, String> text) {
    return ProviderOptions.parse(optionSpecs(), text);
  }

  private List<OptionSpec<?>> optionSpecs() {
    List<OptionSpec<?>> specs = new ArrayList<>(providerFactory.options());
    specs.add(FALLBACK);
    return specs;
  }

  /** Called by the factory for each session; throwing ends the session's creation. */
  PluginSession createSession(
      PluginFactory pluginFactory, Map<String, String> optionText, OrtSessionFacts facts) {
    Map<String, String> text = new HashMap<>(optionText);
    String registration = text.remove(REGISTRATION_KEY);
    SessionListener listener = registration == null ? null : listeners.get(registration);
    if (registration != null && listener == null) {
      throw new EpException(
          "registration.closed",
          "the registration of "
              + epName()
              + " in these session options is closed: register the provider with new options");
    }
    ProviderOptions options = parse(text);
    ExecutionProvider provider = providerFactory.create(options, facts);
    PluginSession session;
    try {
      OrtGpuMemory gpuMemory = gpuMemory(provider.memoryDevice(), facts);
      session =
          new PluginSession(
              pluginFactory, provider, gpuMemory, options.get(FALLBACK) == Fallback.ALLOW);
    } catch (RuntimeException | Error e) {
      provider.close();
      throw e;
    }
    if (listener != null) {
      owners.put(session, listener);
      listener.sessionOpened(session);
    }
    return session;
  }

  private static @Nullable OrtGpuMemory gpuMemory(MemoryDevice device, OrtSessionFacts facts) {
    if (!(device instanceof MemoryDevice.Gpu gpu)) {
      return null;
    }
    facts.checkCanAllocateOn(gpu);
    return new OrtGpuMemory(gpu);
  }

  void sessionClosed(PluginSession session) {
    SessionListener listener = owners.remove(session);
    if (listener != null) {
      listener.sessionClosed(session);
    }
  }

  // The library's two entry points, behind guards. ONNX Runtime may call the first one for a
  // registration that it then rejects, without calling the second: both can be repeated.

  synchronized long createEpFactories(
      long name, long apiBase, long logger, long factories, long maxFactories, long outCount) {
    OrtRuntime.bind(apiBase);
    MemorySegment count = Native.view(outCount, Long.BYTES);
    count.set(ValueLayout.JAVA_LONG, 0, 0);
    if (maxFactories < 1) {
      throw new EpException("ort.factories", "ONNX Runtime asked for no factories");
    }
    PluginFactory made = factory;
    if (made == null) {
      made = new PluginFactory(this);
      factory = made;
    }
    Native.view(factories, Long.BYTES).set(ValueLayout.JAVA_LONG, 0, made.address());
    count.set(ValueLayout.JAVA_LONG, 0, 1);
    return 0;
  }

  static long releaseEpFactory(long factory) {
    return 0; // kept for the next registration
  }
}
