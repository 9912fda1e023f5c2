import { sharedStorage } from '@x/internal'
import type { CurrentRun, Run } from './run.ts'

/**
 * Which run the code that is executing belongs to. It crosses `await`, `Promise.all` and sub-agents; two
 * runs that go on at the same time never see each other's. Copies of this package share it: a pool of one copy
 * serves the runs of another.
 */
const storage = sharedStorage<Run | undefined>('mcp-client.run.1')

/** The run that this code belongs to; undefined outside a run, and in one that has ended. */
export function currentRun(): CurrentRun | undefined {
  const run = storage.getStore()
  return run?.isOpen === true ? run : undefined
}

/** Also one that has ended: the code was started in it, and has outlived it. */
export function contextRun(): Run | undefined {
  return storage.getStore()
}

export function insideRun<T>(run: Run, call: () => T): T {
  return storage.run(run, call)
}

/**
 * For what outlives the call that happens to start it: sockets and timers keep the async context they are
 * made in, and with it the run.
 */
export function outsideRun<T>(call: () => T): T {
  return storage.getStore() === undefined ? call() : storage.run(undefined, call)
}
