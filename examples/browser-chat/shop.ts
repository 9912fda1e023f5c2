import { setTimeout as sleep } from 'node:timers/promises'
import { startLegacyServer } from '@x/mcp-testing'
import type { TestTool } from '@x/mcp-testing'

/** Takes a second, so that a person sees the progress. */
const order: TestTool = {
  name: 'order',
  inputSchema: { type: 'object', properties: { item: { type: 'string' } } },
  annotations: { readOnlyHint: false },
  async run({ item }, { progress }) {
    for (const [index, step] of ['packing', 'sending'].entries()) {
      await progress(index + 1, 2, step)
      await sleep(500)
    }
    return `${String(item)} ordered`
  },
}

export const startShop = () => startLegacyServer({ tools: [order] })
