import { createServer, connect } from 'node:net'
import type { AddressInfo } from 'node:net'

import { expect, test } from 'vitest'

import { afterAwake } from './awake-timer.ts'

function block(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}

test('an answer that came while the process was held up is read before its time is over', async () => {
  const server = createServer((socket) => socket.pipe(socket)).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  await new Promise((resolve) => socket.once('connect', resolve))
  const first = await new Promise((resolve) => {
    const undo = afterAwake(80, () => resolve('too late'))
    socket.once('data', () => {
      undo()
      resolve('answered')
    })
    socket.write('ping', () => block(200))
  })
  expect(first).toBe('answered')
  socket.destroy()
  server.close()
})

test('a time that passes is over once, and not when it is undone', async () => {
  const heard: string[] = []
  const undo = afterAwake(16, () => heard.push('undone'))
  await new Promise<void>((resolve) => {
    afterAwake(24, () => {
      heard.push('over')
      resolve()
    })
    undo()
  })
  expect(heard).toEqual(['over'])
})
