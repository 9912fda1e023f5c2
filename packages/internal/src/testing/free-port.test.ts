import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { freePort } from './free-port.ts'

test('gives different ports, which no server on port 0 gets', async () => {
  const ports = await Promise.all(Array.from({ length: 50 }, () => freePort()))
  expect(new Set(ports).size).toBe(50)
  expect(Math.max(...ports)).toBeLessThan(32_768)
})

test('gives no port that is taken', async () => {
  const taken = (await freePort()) + 1
  await using server = createServer().listen(taken, '127.0.0.1')
  await once(server, 'listening')
  expect(await freePort()).not.toBe(taken)
})
