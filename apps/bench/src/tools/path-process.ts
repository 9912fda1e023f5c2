// Counts what one warm call of a tool of `createMcpTools` goes through until undici has the request: `<url>`.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Session } from 'node:inspector'
import type { Profiler } from 'node:inspector'
import { answerTasks } from '../bench/tasks.ts'
import { makeToolContender } from './contenders.ts'

const WARM_UP = 100

const [, , url = ''] = process.argv
const contender = await makeToolContender('ours-live', url)

answerTasks(async () => {
  for (let time = 0; time < WARM_UP; time++) await contender.call()
  const session = new Session()
  session.connect()
  session.post('Profiler.enable')
  session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: false })
  let counts: object | undefined
  const take = (): void => {
    session.post(
      'Profiler.takePreciseCoverage',
      (_error, { result }) => (counts ??= countsIn(result)),
    )
  }
  subscribe('undici:request:create', take)
  await contender.call()
  unsubscribe('undici:request:create', take)
  session.disconnect()
  return counts
})

function countsIn(scripts: readonly Profiler.ScriptCoverage[]): object {
  const called = scripts
    .map(({ url: file, functions }) => ({
      isOurs: /\/packages\/[^/]+\/src\//.test(file),
      count: functions.filter(({ ranges }) => (ranges[0]?.count ?? 0) > 0).length,
    }))
    .filter(({ count }) => count > 0)
  const ours = called.filter(({ isOurs }) => isOurs)
  const sum = (files: typeof called): number => files.reduce((total, { count }) => total + count, 0)
  return {
    functions: sum(ours),
    files: ours.length,
    allFunctions: sum(called),
    allFiles: called.length,
  }
}
