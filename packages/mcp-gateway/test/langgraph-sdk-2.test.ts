import { Client } from '@langchain/langgraph-sdk'
import { Client as Client2 } from 'langgraph-sdk-2'
import { expect, test, vi } from 'vitest'

// Runs all tests of the LangGraph server source once more, with version 2 of the SDK.
vi.mock('@langchain/langgraph-sdk', () => import('langgraph-sdk-2'))
await import('../src/agents/langgraph-server.test.ts')

test('uses version 2 of the SDK', () => {
  expect(Client).toBe(Client2)
})
