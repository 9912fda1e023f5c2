// A gateway with its store in a folder and an agent that never ends; tells its port, and `begun` when a call runs.
import { createGateway } from '../src/gateway.ts'
import { bearerAuth } from '../src/http/auth/bearer.ts'
import { DiskGatewayStore } from '../src/store/sqlite-store.ts'
import { AgentsAtHand } from './agents-at-hand.ts'

const [, , folder = '', token = ''] = process.argv
const gateway = createGateway({
  sources: [
    new AgentsAtHand({
      async *pay() {
        process.stdout.write('begun\n')
        await new Promise(() => undefined)
        yield { type: 'done' }
      },
    }),
  ],
  auth: bearerAuth({ ada: { token, scopes: ['*'] } }),
  store: new DiskGatewayStore(folder),
})
const { port } = await gateway.listen({ port: 0 })
process.stdout.write(`${port}\n`)
