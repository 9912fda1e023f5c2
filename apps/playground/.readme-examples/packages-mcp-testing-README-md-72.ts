import { CallLedger, startLegacyServer, startModernServer } from '@x/mcp-testing'

const ledger = new CallLedger() // several servers may share one
await using legacy = await startLegacyServer({ ledger })
await using modern = await startModernServer({ ledger })

ledger.executions('cart_add') // how often it ran
ledger.executions({ key: 'order-17', principal: 'ada' })
ledger.received({ tool: 'slow', state: 'cancelled' })
void ledger.waitFor({ tool: 'slow', state: 'running' }) // resolves when a call gets there
export {}
