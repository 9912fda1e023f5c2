import { wishFrom } from './workloads.ts'

/** What a server process says of itself: its `port`, or the `cpu` time it has used so far, in microseconds. */
export function tell(task: unknown, address: unknown): number {
  switch (wishFrom(task)) {
    case 'cpu': {
      const { user, system } = process.cpuUsage()
      return user + system
    }
    case 'port':
      if (typeof address === 'object' && address !== null && 'port' in address) {
        return Number(address.port)
      }
  }
  throw new TypeError('A server tells its port and its CPU time')
}
