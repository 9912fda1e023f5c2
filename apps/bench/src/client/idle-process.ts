// Clients that have shaken hands and then wait, in a process of their own: `ours | sdk-v1 <url>`.
import diagnostics from 'node:diagnostics_channel'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { answerTasks } from '../bench/tasks.ts'
import { isObject } from './checks.ts'
import { contenderNameFrom, makeContender } from './contenders.ts'
import type { Contender } from './contenders.ts'

const [, , name, url = ''] = process.argv
const contenderName = contenderNameFrom(name)

const sockets = new Set<Socket>()
diagnostics.subscribe('undici:client:connected', (event) => {
  const socket = isObject(event) ? event['socket'] : undefined
  if (!isSocket(socket)) return
  sockets.add(socket)
  socket.once('close', () => sockets.delete(socket))
})

const clients: Contender[] = []

/** Told how many to open, waits until the server has hung up on all of them; told `weigh`, says what is in use. */
answerTasks(async (task) => {
  const open = isObject(task) ? task['open'] : undefined
  if (typeof open === 'number') {
    for (let count = 0; count < open; count += 1) {
      const client = await makeContender(contenderName, url)
      await client.call()
      clients.push(client)
    }
    return clients.length
  }
  for (const socket of sockets) await once(socket, 'close')
  for (let turn = 0; turn < 3; turn += 1) {
    globalThis.gc?.()
    await new Promise(setImmediate)
  }
  return { heapBytes: process.memoryUsage().heapUsed, clients: clients.length }
})

function isSocket(value: unknown): value is Socket {
  return typeof value === 'object' && value !== null && 'destroyed' in value
}
