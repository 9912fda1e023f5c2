import { readdir, readFile } from 'node:fs/promises'

export interface ProcessUsage {
  /** CPU time of all its threads that still run. */
  readonly cpuUs: number
  readonly rssBytes: number
}

/** What a process took so far, as Linux tells it. @throws Error where there is no `/proc`, or no such process */
export async function usageOf(pid: number): Promise<ProcessUsage> {
  const threads = await readdir(`/proc/${pid}/task`)
  const times = await Promise.all(
    threads.map(async (thread) => {
      const stat = await readFile(`/proc/${pid}/task/${thread}/schedstat`, 'utf8')
      return Number(stat.split(' ')[0]) / 1000
    }),
  )
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  const kib = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? Number.NaN)
  return { cpuUs: times.reduce((sum, time) => sum + time, 0), rssBytes: kib * 1024 }
}
