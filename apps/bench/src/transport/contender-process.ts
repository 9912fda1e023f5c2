// One contender with one workload, in a process of its own: `<contender> <workload> <origin>`.
import diagnostics from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { answerTasks } from '../bench/tasks.ts'
import { contenderNameFrom, makeContender } from './contenders.ts'
import { isObject } from './messages.ts'
import type { Cost, Kept } from './measurement.ts'
import { workloadFrom } from './workloads.ts'

const [, , contenderName, workloadName, origin = ''] = process.argv
const workload = workloadFrom(workloadName)

const sockets = new Set<Socket>()
diagnostics.subscribe('undici:client:connected', (event) => {
  if (isObject(event) && isSocket(event['socket'])) sockets.add(event['socket'])
})

const contender = await makeContender(contenderNameFrom(contenderName), origin + workload.path)
await contender.open()

/** Told `{ times }`: works, and says what it cost. Told nothing of the kind: says what is left. */
answerTasks(async (task) => {
  const { times } = isObject(task) ? task : {}
  return typeof times === 'number' ? cost(times) : kept()
})

async function cost(times: number): Promise<Cost> {
  const cpu = process.cpuUsage()
  const startedAt = performance.now()
  const units = await workload.run(contender, times)
  const wallUs = (performance.now() - startedAt) * 1000
  const { user, system } = process.cpuUsage(cpu)
  return { cpuUs: (user + system) / units, wallUs: wallUs / units }
}

/** What is still there after the work. */
function kept(): Kept {
  // Here and nowhere else: a forced collection also throws away code that was made fast.
  globalThis.gc?.()
  globalThis.gc?.()
  const emitters = [process, ...sockets]
  const listeners = emitters
    .flatMap((emitter) => emitter.eventNames().map((name) => emitter.listenerCount(name)))
    .reduce((sum, count) => sum + count, 0)
  return { heapBytes: process.memoryUsage().heapUsed, listeners }
}

function isSocket(value: unknown): value is Socket {
  return typeof value === 'object' && value !== null && 'eventNames' in value
}
