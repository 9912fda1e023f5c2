import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { isRecord } from '@x/internal'

/** What a client says of itself: never a proof of who it is. */
export interface ClientFacts {
  readonly name: string | undefined
  /** It can put a form before a person. */
  readonly canAsk: boolean
  /** It can send a person to a page. */
  readonly canVisit: boolean
  /** Its forms have choices of many, and choices with titles. */
  readonly knowsChoices: boolean
}

/** The first revision whose forms have them. */
const WITH_CHOICES = '2025-11-25'

/** Modern clients say it with each request, legacy ones said it once, as their session began. */
export function clientOf(server: Server, { mcpReq }: ServerContext): ClientFacts {
  const envelope: Readonly<Record<string, unknown>> = mcpReq.envelope ?? {}
  const info = envelope[CLIENT_INFO_META_KEY] ?? server.getClientVersion()
  const capabilities = envelope[CLIENT_CAPABILITIES_META_KEY] ?? server.getClientCapabilities()
  const elicitation = isRecord(capabilities) ? capabilities['elicitation'] : undefined
  return {
    name: isRecord(info) && typeof info['name'] === 'string' ? info['name'] : undefined,
    canAsk: asksForms(elicitation),
    canVisit: isRecord(elicitation) && elicitation['url'] !== undefined,
    knowsChoices:
      mcpReq.envelope !== undefined ||
      (server.getNegotiatedProtocolVersion() ?? WITH_CHOICES) >= WITH_CHOICES,
  }
}

/** Before there were modes, `{}` meant forms. */
function asksForms(elicitation: unknown): boolean {
  if (!isRecord(elicitation)) return false
  return elicitation['form'] !== undefined || elicitation['url'] === undefined
}
