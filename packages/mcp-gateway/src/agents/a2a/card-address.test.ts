import { expect, test } from 'vitest'

import { cardAddressFrom } from './card-address.ts'

test.for([
  ['https://a.example', 'https://a.example/.well-known/agent-card.json', 'a2a:https://a.example'],
  ['https://a.example/', 'https://a.example/.well-known/agent-card.json', 'a2a:https://a.example'],
  [
    'https://a.example/x/',
    'https://a.example/x/.well-known/agent-card.json',
    'a2a:https://a.example/x',
  ],
  [
    'https://a.example/.well-known/agent-card.json?key=1#x',
    'https://a.example/.well-known/agent-card.json?key=1',
    'a2a:https://a.example',
  ],
  ['https://a.example/card.json', 'https://a.example/card.json', 'a2a:https://a.example/card.json'],
] as const)('%s', ([given, url, agentId]) => {
  const address = cardAddressFrom(given)
  expect(address.url.href).toBe(url)
  expect(address.agentId).toBe(agentId)
})

test.for(['file:///etc/passwd', 'agent', 'https://user:secret@a.example'])(
  '%s is none',
  (given) => {
    expect(() => cardAddressFrom(given)).toThrow(expect.objectContaining({ code: 'CONFIG' }))
    expect(() => cardAddressFrom(given)).not.toThrow(/secret/)
  },
)
