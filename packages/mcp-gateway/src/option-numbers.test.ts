import { describe, expect, test } from 'vitest'

import { AgentsAtHand, echo } from '../test/agents-at-hand.ts'
import { createGateway } from './gateway.ts'
import type { GatewayOptions } from './gateway-options.ts'
import { checkNumbers } from './option-numbers.ts'

const unset = Number(undefined)

describe('a number that was never set is refused, and named', () => {
  test.each<[string, GatewayOptions]>([
    ['http.port', { http: { port: unset } }],
    ['runs.timeoutMs', { runs: { timeoutMs: unset } }],
    ['limits.argumentBytes', { limits: { argumentBytes: unset } }],
    ['limits.requestsPerMinutePerPrincipal', { limits: { requestsPerMinutePerPrincipal: unset } }],
    ['sessions.eventStore.ttlMs', { sessions: { eventStore: { ttlMs: unset } } }],
    [
      'tools.overrides["a/b"].cache.ttlMs',
      { tools: { overrides: { 'a/b': { cache: { ttlMs: unset } } } } },
    ],
    [
      'inline.clientProfiles.0.textMaxChars',
      { inline: { clientProfiles: [{ match: 'x', textMaxChars: unset }] } },
    ],
  ])('%s', (path, options) => {
    const message = expect.stringContaining(`${path} is NaN; expected a number`)
    expect(() => createGateway(options)).toThrow(
      expect.objectContaining({ code: 'CONFIG', path, message }),
    )
  })

  test('also in a gateway that runs, which goes on as before', async () => {
    await using gateway = createGateway({ sources: [new AgentsAtHand({ echo })] })
    const tools = { exclude: ['echo'] }
    const update = gateway.update({ tools, runs: { timeoutMs: unset } })
    await expect(update).rejects.toMatchObject({ code: 'CONFIG', path: 'runs.timeoutMs' })
    await gateway.registry.start()
    expect(gateway.registry.plan().tools).toHaveLength(1)
  })
})

test('so is none at all, where nothing could run', () => {
  for (const runs of [{ maxConcurrent: 0 }, { timeoutMs: 0 }, { maxConcurrentPerPrincipal: 0 }]) {
    expect(() => checkNumbers({ runs })).toThrow(/is 0; expected a number, 1 or more/)
  }
  expect(() => checkNumbers({ runs: { idleTimeoutMs: 0, maxQueued: 0 } })).not.toThrow()
})

test('so are numbers below zero, and texts where a number belongs', () => {
  expect(() => checkNumbers({ sessions: { idleTtlMs: -1 } })).toThrow(/idleTtlMs is -1; expected/)
  expect(() => checkNumbers({ runs: { timeoutMs: '5000' } })).toThrow(/timeoutMs is a string/)
})

test('no limit at all is a number, and one that is left out has its default', () => {
  const limits = { argumentBytes: Number.POSITIVE_INFINITY, requestsPerMinutePerIp: undefined }
  expect(() => checkNumbers({ limits, runs: undefined })).not.toThrow()
})
