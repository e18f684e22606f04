import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

/** Where a control group that limits memory can be created, and the names of its files. */
const hierarchies = [
  { folder: '/sys/fs/cgroup/memory', limit: 'memory.limit_in_bytes' },
  { folder: '/sys/fs/cgroup', limit: 'memory.max' },
];

interface MemoryLimit {
  add(pid: number): void;
  /** When its processes have ended. */
  remove(): void;
}

/** A control group with this limit, above which the kernel kills the process; `undefined` if none can be created. */
export function limitMemory(bytes: number): MemoryLimit | undefined {
  for (const { folder, limit } of hierarchies) {
    const group = join(folder, `countersign-test-${process.pid}`);
    try {
      mkdirSync(group);
    } catch {
      continue;
    }
    if (existsSync(join(group, limit))) {
      writeFileSync(join(group, limit), String(bytes));
      return {
        add: (pid) => writeFileSync(join(group, 'cgroup.procs'), String(pid)),
        remove: () => rmdirSync(group),
      };
    }
    rmdirSync(group);
  }
  return undefined;
}

/** The peak resident set size of a process in bytes; `undefined` on other systems than Linux. */
export function peakMemory(pid: number): number | undefined {
  const file = `/proc/${pid}/status`;
  if (!existsSync(file)) return undefined;
  return Number(/VmHWM:\s+(\d+) kB/.exec(readFileSync(file, 'utf8'))?.[1]) * 1024;
}
