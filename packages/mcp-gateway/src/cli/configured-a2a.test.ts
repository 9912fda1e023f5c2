import { expect, test } from 'vitest'

import { startA2aAgent } from '../../test/a2a-agent.ts'
import { sourceFrom } from './configured-source.ts'
import { readConfig } from './read-config.ts'

test('agents of A2A are named in the file, with what their cards need', async () => {
  await using agent = await startA2aAgent((turn) => turn.answer('Hello'))
  const content = `
agents:
  sources:
    - type: a2a
      cards:
        - url: ${agent.url}
          headers: { authorization: "Bearer \${AGENT_KEY}" }
      trustedOrigins: [${agent.origin}]
`
  const { config } = readConfig({ content, env: { AGENT_KEY: 'k1' } })
  const [described] = config.agents.sources
  if (described === undefined) throw new Error('There is no source')
  const source = await sourceFrom(described, {})
  const found: string[] = []
  await source.start({ found: ({ name }) => found.push(name), seen() {}, gone() {} })
  expect(found).toEqual(['Weather'])
  expect(agent.requests[0]?.headers.authorization).toBe('Bearer k1')
  await source.close()
})

test('what is no card is told with its place', () => {
  const content = 'agents:\n  sources:\n    - type: a2a\n      cards: [5]'
  expect(() => readConfig({ content, name: 'g.yaml' })).toThrow(
    'g.yaml:4: agents.sources[0].cards[0] is 5; expected the URL of a card, or { url, headers }',
  )
})
