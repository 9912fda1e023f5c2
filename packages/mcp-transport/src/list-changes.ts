import { isRecord } from '@x/internal'
import type { JsonRpcNotification } from './json-rpc.ts'

/** The lists whose changes a server tells, or is asked to tell. */
export interface ListChanges {
  readonly toolsListChanged?: true | undefined
  readonly promptsListChanged?: true | undefined
  readonly resourcesListChanged?: true | undefined
}

const LISTS = [
  ['tools', 'toolsListChanged', 'notifications/tools/list_changed'],
  ['prompts', 'promptsListChanged', 'notifications/prompts/list_changed'],
  ['resources', 'resourcesListChanged', 'notifications/resources/list_changed'],
] as const

/** The list changes that a server advertises. */
export function advertisedChanges(capabilities: Readonly<Record<string, unknown>>): ListChanges {
  const changes: Record<string, true> = {}
  for (const [capability, change] of LISTS) {
    const advertised = capabilities[capability]
    if (isRecord(advertised) && advertised['listChanged'] === true) changes[change] = true
  }
  return changes
}

/** One notification for each list: stands for all changes of it that were missed while no stream stood. */
export function listChangesFor(changes: ListChanges): readonly JsonRpcNotification[] {
  return LISTS.filter(([, change]) => changes[change] === true).map(([, , method]) => ({
    jsonrpc: '2.0',
    method,
  }))
}
