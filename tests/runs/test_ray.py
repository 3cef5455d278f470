"""The same run on a Ray cluster, one machine of which is lost."""

import sys
import threading
import time
from dataclasses import replace

import pytest

import user_files
from partswap.errors import MissingDependencyError
from partswap.runs.context import open_run_context
from partswap.runs.payload import Shard
from partswap.runs.ray import explain_on_ray
from partswap.runs.run import run

PATIENCE = {
    "raylet_start_wait_time_s": 120,
    "worker_register_timeout_seconds": 600,
    "agent_register_timeout_ms": 600_000,
    "health_check_timeout_ms": 60_000,
}


def contents(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_without_ray_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'partswap\[ray\]'"):
        next(explain_on_ray(None, []))


def start_cluster(attempts=3):
    """Two nodes; Ray gives up its own processes after some seconds, which a busy machine may need."""
    from ray.cluster_utils import Cluster

    for attempt in range(attempts):
        cluster = Cluster()
        try:
            cluster.add_node(num_cpus=1, include_dashboard=False, object_store_memory=200 * 2**20)
            second = cluster.add_node(num_cpus=1, object_store_memory=200 * 2**20)
            cluster.wait_for_nodes()
        except Exception:  # whatever Ray raises, another attempt may succeed
            cluster.shutdown()
            if attempt == attempts - 1:
                raise
        else:
            return cluster, second
    raise AssertionError("no attempt was made")


@pytest.mark.soak
def test_two_nodes_one_of_them_killed_give_the_same_bytes(whole_run, tmp_path, monkeypatch):
    # On a busy machine Ray's processes start slowly, and it would give them up.
    for patience, value in PATIENCE.items():
        monkeypatch.setenv(f"RAY_{patience}", str(value))
    import ray

    cluster, lost = start_cluster()
    try:
        out = tmp_path / "ray"
        done_at_loss = []

        def lose():
            # In the middle: some shards are done, and both machines are at work (no core is free).
            while not done_at_loss and (
                len(found := list(out.glob("edits/*/*.parquet"))) < 3 or ray.available_resources().get("CPU", 0) > 0
            ):
                time.sleep(0.01)
            if not done_at_loss:
                done_at_loss.append(len(found))
                cluster.remove_node(lost, allow_graceful=False)

        thread = threading.Thread(target=lose)
        thread.start()
        try:
            made = run(whole_run.with_(out=out, on="ray", address=cluster.address))
        finally:
            if not done_at_loss:
                done_at_loss.append(-1)
            thread.join()
        assert 3 <= done_at_loss[0] < len(made.shards())
        assert contents(out / "edits") == contents(whole_run.out / "edits")
    finally:
        cluster.shutdown()


def test_a_network_of_a_user_s_own_file_is_explained_on_a_cluster(whole_run, tmp_path, monkeypatch):
    for patience, value in PATIENCE.items():
        monkeypatch.setenv(f"RAY_{patience}", str(value))
    bench = open_run_context(whole_run)
    monkeypatch.syspath_prepend(tmp_path)
    own = user_files.load(tmp_path, "_own_on_ray", register=True)
    bundle = user_files.bundle_of(own, bench)
    monkeypatch.undo()
    for path in tmp_path.glob("*.py"):  # as on a machine that has never seen them
        path.unlink()
    found = list(explain_on_ray(bundle, [Shard("goyal", 0, 0, 3)], workers=1))
    expected = user_files.direct(own, bench, bundle)[:3]
    assert [replace(cf, seconds=0.0) for cf in found[0][1]] == [replace(cf, seconds=0.0) for cf in expected]
