import subprocess
import sys


def test_the_package_imports_without_rdkit_and_chem_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['rdkit'] = None\n"
        "import pyg_kernels\n"
        "try:\n"
        "    import pyg_kernels.chem\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "pip install 'pyg_kernels[mol]'" in done.stdout
