import { startRedisServer } from '@x/internal/testing'
import { afterAll, expect, test } from 'vitest'

import { run } from '../../test/command-line.ts'
import { configFolder } from '../../test/config-folder.ts'
import { connect } from '../../test/mcp-clients.ts'
import { redisStore } from '../../test/redis-store.ts'
import { createGateway } from '../gateway.ts'

const redis = await startRedisServer()

afterAll(() => redis?.[Symbol.asyncDispose]())

const STATE_KEY = 'k'.repeat(32)

test.runIf(redis)('lists the sessions of gateways that share a store, by hash', async () => {
  const redisUrl = redis?.url ?? ''
  await using folder = await configFolder()
  const yaml = `store: { type: redis, url: '${redisUrl}', prefix: listed }\n`
  const file = await folder.file('g.yaml', yaml)
  expect(await run(['sessions', file])).toEqual({ code: 0, out: '0 sessions\n', err: '' })

  const store = redisStore({ url: redisUrl, prefix: 'listed' })
  await using gateway = createGateway({ store, secrets: { stateKey: STATE_KEY } })
  const { url } = await gateway.listen({ port: 0 })
  await using client = await connect('v1', url)
  await client.listTools()
  const { out } = await run(['sessions', file, '--json'])
  const [listed, ...others] = JSON.parse(out)
  expect(others).toEqual([])
  expect(listed).toMatchObject({ client: 'test', version: '1.0.0', revision: '2025-11-25' })
  expect(listed.session).toMatch(/^[0-9a-f]{8}$/)
  expect((await run(['sessions', file])).out).toMatch(/^1 session\n {2}[0-9a-f]{8} {2}of /)
  await gateway.close()
  await store.close()
})

test('refuses to list the sessions of a store that is not shared', async () => {
  await using folder = await configFolder()
  const { code, err } = await run(['sessions', await folder.file('g.yaml', '{}\n')])
  expect(code).toBe(1)
  expect(err).toMatch(/^mcp-gateway: With store\.type memory only the gateway itself .*metrics\n$/)
})
