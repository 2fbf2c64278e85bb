package dev.expertbank.tests.packaging;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;

import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import java.lang.foreign.Linker;
import org.junit.jupiter.api.Test;

/** Dependencies point one way. */
class DependencyTest {
  private static final JavaClasses CLASSES =
      new ClassFileImporter()
          .withImportOption(new ImportOption.DoNotIncludeTests())
          .importPackages("dev.expertbank");

  @Test
  void theSpiKnowsNoProviderAndNoTool() {
    noClasses()
        .that()
        .resideInAnyPackage(
            "dev.expertbank.spi..",
            "dev.expertbank.api..",
            "dev.expertbank.ort..",
            "dev.expertbank.natives..",
            "dev.expertbank.memory..",
            "dev.expertbank.residency..",
            "dev.expertbank.state..")
        .should()
        .dependOnClassesThat()
        .resideInAnyPackage(
            "dev.expertbank.qmoe..", "dev.expertbank.model..", "dev.expertbank.cli..")
        .check(CLASSES);
  }

  @Test
  void aProviderSeesOnlyTheSpi() {
    classes()
        .that()
        .resideInAPackage("dev.expertbank.qmoe..")
        .should()
        .onlyDependOnClassesThat()
        .resideInAnyPackage(
            "dev.expertbank.qmoe..",
            "dev.expertbank.spi..",
            "dev.expertbank.residency..",
            "dev.expertbank.memory..",
            "dev.expertbank.state..",
            "dev.expertbank.natives..",
            "org.jspecify..",
            "javax.management..",
            "jdk.jfr..",
            "jcuda..",
            "java..")
        .check(CLASSES);
  }

  @Test
  void oneClassKnowsJCuda() {
    noClasses()
        .that()
        .haveNameNotMatching("dev\\.expertbank\\.qmoe\\.device\\.cuda\\.CudaSetup(\\$.*)?")
        .should()
        .dependOnClassesThat()
        .resideInAPackage("jcuda..")
        .check(CLASSES);
  }

  @Test
  void theToolsNeedNeitherProviderNorHost() {
    noClasses()
        .that()
        .resideInAPackage("dev.expertbank.model..")
        .should()
        .dependOnClassesThat()
        .resideInAnyPackage(
            "dev.expertbank.qmoe..",
            "dev.expertbank.ort..",
            "dev.expertbank.natives..",
            "ai.onnxruntime..")
        .check(CLASSES);
  }

  @Test
  void pureArithmeticTouchesNoNativeMemoryAndNoOnnxRuntime() {
    noClasses()
        .that()
        .resideInAnyPackage("dev.expertbank.spi.qmoe..", "dev.expertbank.residency..")
        .should()
        .dependOnClassesThat()
        .resideInAnyPackage("java.lang.foreign..", "ai.onnxruntime..", "dev.expertbank.ort..")
        .check(CLASSES);
  }

  @Test
  void oneClassLinksNativeFunctions() {
    noClasses()
        .that()
        .doNotHaveFullyQualifiedName("dev.expertbank.natives.Native")
        .should()
        .dependOnClassesThat()
        .areAssignableTo(Linker.class)
        .check(CLASSES);
  }
}
