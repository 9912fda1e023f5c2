import { expect, test } from 'vitest'

import { maskedConfig } from './masked-config.ts'
import { readConfig } from './read-config.ts'

test('what is secret is masked, wherever a file may say it', () => {
  const content = {
    agents: {
      sources: [
        {
          type: 'langgraph-server',
          url: 'https://a.test',
          apiKey: 'S1',
          headers: { 'x-key': 'S2' },
        },
        { type: 'a2a', cards: [{ url: 'https://b.test', headers: { authorization: 'S3' } }] },
      ],
    },
    auth: { tokens: { ci: { token: 'S4', scopes: ['*'] } } },
    secrets: { stateKey: 'S5'.repeat(20) },
    store: { type: 'redis', url: 'redis://user:S6@localhost:6379' },
  }
  const shown = JSON.stringify(maskedConfig(readConfig({ content }).config))
  expect(shown).not.toMatch(/S[1-6]/)
  expect(shown).toContain('"x-key":"[masked]"')
  expect(shown).toContain('https://b.test')
})
