package dev.expertbank.api;

import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtEpDevice;
import ai.onnxruntime.OrtException;
import ai.onnxruntime.OrtSession;
import dev.expertbank.ort.PluginLibrary;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.ExecutionProviderFactory;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.jspecify.annotations.Nullable;

/** An available provider, ready to be registered with ONNX Runtime. Safe from any thread. */
public final class Provider {
  private final String name;
  private final PluginLibrary library;

  private Provider(String name, PluginLibrary library) {
    this.name = name;
    this.library = library;
  }

  static Provider load(ExecutionProviderFactory factory) {
    return new Provider(factory.name(), PluginLibrary.load(factory));
  }

  /** The provider's name, as given to {@link ExecutionProviders#require}. */
  public String name() {
    return name;
  }

  /** The name by which {@link OrtEpDevice#getEpName} lists the provider. */
  public String epName() {
    return library.epName();
  }

  /**
   * The library for {@link OrtEnvironment#registerExecutionProviderLibrary}, as an absolute path.
   * Whoever registers it by hand adds the device named {@link #epName} to the session options with
   * the same option keys as {@link #register} takes.
   */
  public Path library() {
    return library.path();
  }

  /**
   * Registers the provider with the environment, once per process, and adds it to the session
   * options. Options are checked here, before any session exists.
   *
   * @param options owned by the caller; sessions created from it use the provider
   * @return the caller's to close, after the sessions
   * @throws EpException {@code options.…} if an option is unknown or has no valid value
   */
  public Registration register(
      OrtEnvironment environment,
      OrtSession.SessionOptions options,
      Map<String, String> providerOptions)
      throws OrtException {
    library.checkOptions(providerOptions);
    OrtEpDevice device = device(environment);
    Registration registration = new Registration(library);
    Map<String, String> withRegistration = new HashMap<>(providerOptions);
    withRegistration.put(PluginLibrary.REGISTRATION_KEY, registration.id());
    options.addExecutionProvider(List.of(device), withRegistration);
    return registration;
  }

  /**
   * The provider's device in the environment. It stays registered until the process ends: session
   * options point to it for as long as they live, and ONNX Runtime does not check that.
   */
  private synchronized OrtEpDevice device(OrtEnvironment environment) throws OrtException {
    OrtEpDevice device = findDevice(environment);
    if (device == null) {
      environment.registerExecutionProviderLibrary("expertbank." + name, library.path().toString());
      device = findDevice(environment);
    }
    if (device == null) {
      throw new EpException(
          "ort.device", "ONNX Runtime lists no device for " + epName() + " after registration");
    }
    return device;
  }

  private @Nullable OrtEpDevice findDevice(OrtEnvironment environment) throws OrtException {
    for (OrtEpDevice device : environment.getEpDevices()) {
      if (device.getEpName().equals(epName())) {
        return device;
      }
    }
    return null;
  }
}
