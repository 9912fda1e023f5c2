import { interopGateway } from './interop-gateway.ts'

// What clients start that speak over pipes.
const gateway = interopGateway()
await gateway.serveStdio().closed
await gateway.close()
