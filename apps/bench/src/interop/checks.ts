import type { Check } from './check.ts'
import { adaptersOnOurTransport } from './checks/adapters-on-our-transport.ts'
import { gatewayA2a } from './checks/gateway-a2a.ts'
import { gatewayAccess } from './checks/gateway-access.ts'
import { gatewayClients } from './checks/gateway-clients.ts'
import { gatewayInLangGraphServer } from './checks/gateway-in-langgraph-server.ts'
import { gatewayInspector } from './checks/gateway-inspector.ts'
import { ourToolsOnStockClients } from './checks/our-tools-on-stock-clients.ts'

export const CHECKS: readonly Check[] = [
  ...adaptersOnOurTransport,
  ...ourToolsOnStockClients,
  ...gatewayClients,
  ...gatewayAccess,
  ...gatewayInspector,
  ...gatewayInLangGraphServer,
  ...gatewayA2a,
]
