import { expect, test } from 'vitest'

import { readConfig } from '../../mcp-gateway/src/cli/config-file.ts'
import { toOptions } from '../../mcp-gateway/src/cli/file-settings.ts'
import { quiet } from '../../mcp-gateway/test/scripted-source.ts'
import { startA2aAgent } from '../test/a2a-agent.ts'
import { a2aSource } from './index.ts'

test('reads cards of A2A agents with their headers', async () => {
  await using agent = await startA2aAgent((turn) => turn.answer('Hello'))
  const content = `
sources:
  - type: a2a
    cards:
      - url: ${agent.url}
        headers: { authorization: "Bearer \${AGENT_KEY}" }
    trustedOrigins: [${agent.origin}]
`
  const { config, sections } = await readConfig(content, { env: { AGENT_KEY: 'k1' } })
  const context = { folder: '', onWarning: () => undefined, sections }
  await using configured = await toOptions(config, context)
  const [source] = configured.options.sources
  if (source === undefined) throw new Error('There is no source')
  const found: string[] = []
  await source.start({ ...quiet, found: ({ name }) => found.push(name) })
  expect(found).toEqual(['Weather'])
  expect(agent.requests[0]?.headers.authorization).toBe('Bearer k1')
  await source.close()
})

const url = 'https://agent.example'

test.each([
  [{ card: [url] }, 'Did you mean "cards"?'],
  [{ cards: url }, '"cards" must be a list'],
  [{ cards: [{ uri: url }] }, 'Did you mean "cards[0].url"?'],
  [{ cards: [{ url, headers: 'secret' }] }, '"cards[0].headers" must be headers by'],
  [{ cards: [url], timeout: 5 }, 'Did you mean "timeoutMs"?'],
])('refuses the options %j', (options: object, problem) => {
  expect(() => Reflect.apply(a2aSource, undefined, [options])).toThrow(problem)
})
