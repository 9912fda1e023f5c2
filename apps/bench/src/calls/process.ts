// One contender in a process of its own: `<contender> <url> [file]`.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { startCoverage } from '../measure/coverage.ts'
import { cpuUs, memory, serve } from '../measure/worker.ts'
import { makeContender } from './contenders.ts'
import type { Contender, ContenderName } from './contenders.ts'

const [, , name, url = '', file] = process.argv
const contender = await makeContender(name as ContenderName, url, file)

const sockets = new Set<Socket>()
const idleClients: Contender[] = []
subscribe('undici:client:connected', (event) => {
  const { socket } = event as { socket: Socket }
  sockets.add(socket)
  socket.once('close', () => sockets.delete(socket))
})

const api = {
  /** Makes calls, a number of them in flight at any time. Returns their total cost. */
  async calls(times: number, atOnce: number) {
    const cpu = cpuUs()
    const startedAt = performance.now()
    const failed = await failuresOf(times, atOnce)
    return { cpuUs: cpuUs() - cpu, wallUs: (performance.now() - startedAt) * 1000, failed }
  },
  /** Returns the cost of what goes on without calls. */
  async wait(ms: number) {
    const cpu = cpuUs()
    const startedAt = performance.now()
    await new Promise((resolve) => setTimeout(resolve, ms))
    return { cpuUs: cpuUs() - cpu, wallUs: (performance.now() - startedAt) * 1000 }
  },
  async callAndClose() {
    await contender.call()
    await contender[Symbol.asyncDispose]()
  },
  /** Opens more clients. Each makes one call, and then waits. */
  async open(count: number) {
    for (let opened = 0; opened < count; opened += 1) {
      const client = await makeContender(name as ContenderName, url, file)
      await client.call()
      idleClients.push(client)
    }
  },
  /** Heap in use, after the server has closed all connections. */
  async heapBytes() {
    for (const socket of sockets) await once(socket, 'close')
    return (await memory()).heapBytes
  },
  /** Counts our functions and files that one warm call runs, until undici creates the request. */
  async path() {
    for (let time = 0; time < 100; time += 1) await contender.call()
    const take = startCoverage()
    subscribe('undici:request:create', take)
    await contender.call()
    unsubscribe('undici:request:create', take)
    return take()
  },
}
export type ProcessApi = typeof api
serve(api)

/** Returns the number of calls that failed. Prints the first error. */
async function failuresOf(times: number, atOnce: number): Promise<number> {
  let left = times
  let failed = 0
  async function lane(): Promise<void> {
    while (left-- > 0) {
      try {
        await contender.call()
      } catch (error) {
        if (failed++ === 0) console.error(error)
      }
    }
  }
  await Promise.all(Array.from({ length: atOnce }, lane))
  return failed
}
