/**
 * The SPI of execution providers written in Java, and the host that plugs them into ONNX Runtime.
 */
@SuppressWarnings({
  "requires-automatic",
  "requires-transitive-automatic", // ONNX Runtime is an automatic module
  "module" // the provider's module is compiled after this one
})
module dev.expertbank.spi {
  requires transitive com.microsoft.onnxruntime;
  requires java.management;
  requires jdk.management;
  requires static transitive org.jspecify;

  exports dev.expertbank.api;
  exports dev.expertbank.memory;
  exports dev.expertbank.residency;
  exports dev.expertbank.residency.policy;
  exports dev.expertbank.residency.simulation;
  exports dev.expertbank.spi;
  exports dev.expertbank.spi.qmoe;
  exports dev.expertbank.state;
  exports dev.expertbank.natives to
      dev.expertbank.qmoe;

  uses dev.expertbank.spi.ExecutionProviderFactory;
  uses dev.expertbank.residency.ResidencyPolicyFactory;

  provides dev.expertbank.residency.ResidencyPolicyFactory with
      dev.expertbank.residency.policy.AdaptivePolicy.Factory,
      dev.expertbank.residency.policy.HotSetPolicy.Factory,
      dev.expertbank.residency.policy.LruPolicy.Factory,
      dev.expertbank.residency.policy.StaticProfilePolicy.Factory,
      dev.expertbank.residency.policy.WholeBankPolicy.Factory;
}
