import { startModernServer } from '@x/mcp-testing'
import type { TestTool } from '@x/mcp-testing'

/** Asks for the breakfast before it books. */
const book: TestTool = {
  name: 'book',
  inputSchema: { type: 'object', properties: { room: { type: 'number' } } },
  run({ room }, { inputResponses }) {
    if (inputResponses === undefined) {
      return {
        resultType: 'input_required',
        inputRequests: {
          breakfast: {
            method: 'elicitation/create',
            params: {
              mode: 'form',
              message: `Breakfast in room ${String(room)}?`,
              requestedSchema: { type: 'object', properties: { wanted: { type: 'boolean' } } },
            },
          },
        },
      }
    }
    return `room ${String(room)}, breakfast: ${JSON.stringify(inputResponses['breakfast'])}`
  },
}

export const startHotel = () => startModernServer({ tools: [book] })
