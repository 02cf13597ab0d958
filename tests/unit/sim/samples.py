"""A small sound file of each format of workloads, and where the real ones are."""

from __future__ import annotations

import json
import os
from pathlib import Path

MURI = """\
job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,priority
0,4,0,1000,shufflenet_v2_x1_0,128,886000,0,886,0
1,8,12000,400,bert,4,76000,12000,190.5,1
2,1,12000,10,a2c,64,1000,0,100,0
"""
TIRESIAS = """\
job_id,num_gpu,submit_time,iterations,model_name,duration,interval
0,1,0,606,vgg19,164,30
1,8,30,133,vgg11,147,23
2,2,53,157,inception4,127,26
"""
POLLUX = """\
name,time,application,num_replicas,batch_size
cifar10-0,107,cifar10,6,2048
ncf-1,135,ncf,1,32768
bert-2,140,bert,8,192
"""
PHILLY = """\
timestamp,duration,num_gpus,gpu_time,cluster
2017-10-09 07:01:55,66.0,1,66.0,11cb48
2017-10-09 07:00:55,2951.5,8,23612.0,6214e9
2017-10-10 07:01:55,10.0,2,20.0,6214e9
"""
OPENB = """\
name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time
openb-pod-0,12000,16384,1,460,,LS,Running,0,12500,20
openb-pod-1,6000,12288,0,0,,BE,Failed,427,900,427
openb-pod-2,6000,12288,1,1000,,BE,Pending,500,600,
"""
SACCT = """\
JobID|JobName|User|Submit|ElapsedRaw|State|AllocTRES
4711|bert "large"|ada|2026-03-01T08:00:00|3600|COMPLETED|billing=32,cpu=32,gres/gpu:a100=8,gres/gpu=8,mem=256G,node=2
4711.batch|batch||2026-03-01T08:00:00|3600|COMPLETED|cpu=16,gres/gpu=4,mem=128G,node=1
4713|later|bob|2026-03-01T08:01:00|0|PENDING|
4714|now|bob|2026-03-01T08:02:00|12|RUNNING|cpu=1,mem=512M,node=1
4712_3|sweep|bob|2026-03-01T08:00:30|90|CANCELLED by 1000|billing=3,cpu=3,gres/gpu:a100=1,mem=1.50G,node=2
"""
GAVEL = (
    "ResNet-18 (batch size 128)\tpython3 main.py\timage_classification\t--num_steps\t1\t1000\t4\t1\t-1.000000\t0\n"
    "A3C\tpython3 a3c.py\trl\t-n\t0\t500\t1\t2\t3600\t60.5\n"
)
SHOCKWAVE = (
    "LM (batch size 10)\tpython3 main.py\tlm\t--steps\t1\t1000\t4\tgns\t1\t-1.000000\t1418\t0\n"
    "A3C\tpython3 a3c.py\trl\t-n\t0\t500\t1\tstatic\t2\t3600\t7.5\t60.5\n"
)
JSONL = """\
{"name":"first","submit_s":0,"requests":{"gpus":2},"work_s":100.5}
{"name":"second","submit_s":5.5,"requests":{"cpu_m":100,"memory_mib":256},"replicas":3,"work_s":60,"iterations":50,\
"model":"bert","batch_size":32,"family":"algoperf/wmt","memory_mib":900,"demand_cpu_m":6400,"details":{"team":"a"}}
"""
THROUGHPUTS = json.dumps(
    {
        "k80": {"('A3C', 1)": {"null": 1.0}},
        "v100": {
            "('ResNet-18 (batch size 128)', 4)": {"null": 50.0, "('A3C', 1)": [25.0, 5.0]},
            "('A3C', 1)": {"null": 5.0},
            "('CycleGAN', 1)": {"null": 0.0},
        },
    }
)
SAMPLES = {
    "muri": MURI,
    "tiresias": TIRESIAS,
    "pollux": POLLUX,
    "philly": PHILLY,
    "openb": OPENB,
    "sacct": SACCT,
    "gavel": GAVEL,
    "shockwave": SHOCKWAVE,
    "jsonl": JSONL,
}


def written(folder: Path, text: str | bytes, name: str = "workload") -> Path:
    """A file with that content; Gavel's throughputs lie beside it."""
    (folder / "simulation_throughputs.json").write_text(THROUGHPUTS)
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def real_data() -> Path | None:
    """The folder of public traces: ``$STEEPEST_DATA``, or ``shared/data`` beside the repository."""
    named = os.environ.get("STEEPEST_DATA")
    data = Path(named) if named else Path(__file__).parents[4] / "shared" / "data"
    return data if (data / "muri").is_dir() else None
