// An agent in a process of its own. It answers one message, and then waits until it is killed.
import { startAgent } from './agent.ts'
import { modelThatAdds } from './model.ts'

const [url = '', folder = '', thread = '', item = ''] = process.argv.slice(2)
const agent = await startAgent({ url, folder, model: modelThatAdds(item) })
process.send?.(await agent.say(thread, `Add ${item}`))
process.on('message', () => {}) // keeps the process alive
