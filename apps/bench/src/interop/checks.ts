import type { Check } from './check.ts'
import { adaptersOnOurTransport } from './checks/adapters-on-our-transport.ts'
import { ourToolsOnStockClients } from './checks/our-tools-on-stock-clients.ts'

export const CHECKS: readonly Check[] = [...adaptersOnOurTransport, ...ourToolsOnStockClients]
