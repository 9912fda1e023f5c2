import { startLegacyServer } from '@x/mcp-testing'
import type { TestTool } from '@x/mcp-testing'

const pay: TestTool = {
  name: 'pay',
  inputSchema: { type: 'object', properties: { key: { type: 'string' } } },
  annotations: { readOnlyHint: false },
  async run(args, { principal, progress, signal }) {
    await progress(1, 2, 'charging')
    if (signal.aborted) throw new Error('The caller left')
    return `paid by ${principal}`
  },
}
await using server = await startLegacyServer({ tools: [pay], answerAs: 'sse' })
export {}
