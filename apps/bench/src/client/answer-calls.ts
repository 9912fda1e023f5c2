import { answerTasks } from '../bench/tasks.ts'
import { numbersFrom } from './checks.ts'

/** The other side of `costOfCalls`: told how many calls, and how many of them at once; says what they cost altogether. */
export function answerCalls(call: () => Promise<void>): void {
  answerTasks(async (task) => {
    const { times, atOnce } = numbersFrom(task, ['times', 'atOnce'])
    const cpu = process.cpuUsage()
    const startedAt = performance.now()
    const failed = await calls(call, { times, atOnce })
    const wallUs = (performance.now() - startedAt) * 1000
    const { user, system } = process.cpuUsage(cpu)
    return { cpuUs: user + system, wallUs, failed }
  })
}

/** Resolves to how many failed; the first one is told. */
async function calls(
  call: () => Promise<void>,
  { times, atOnce }: { readonly times: number; readonly atOnce: number },
): Promise<number> {
  let left = times
  let failed = 0
  async function lane(): Promise<void> {
    while (left-- > 0) {
      try {
        await call()
      } catch (error) {
        if (failed++ === 0) console.error(error)
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
  return failed
}
