import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import {
  LoggingMessageNotificationSchema,
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import type { LoggingMessageNotification } from '@modelcontextprotocol/sdk/types.js'

/** A log message of the server. */
export interface ServerLog {
  readonly level: LoggingMessageNotification['params']['level']
  readonly logger?: string | undefined
  readonly data: unknown
}

/** What a server tells on its own, in the present session. */
export interface ServerNews {
  toolsChanged(): void
  promptsChanged(): void
  resourcesChanged(): void
  resourceUpdated(uri: string): void
  logged(message: ServerLog): void
}

const METHODS = [
  'notifications/tools/list_changed',
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
  'notifications/resources/updated',
  'notifications/message',
]

export function hearNews(client: Client, news: ServerNews): void {
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => news.toolsChanged())
  client.setNotificationHandler(PromptListChangedNotificationSchema, () => news.promptsChanged())
  client.setNotificationHandler(ResourceListChangedNotificationSchema, () =>
    news.resourcesChanged(),
  )
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) =>
    news.resourceUpdated(params.uri),
  )
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => {
    const { level, logger, data } = params
    news.logged({ level, data, ...(logger === undefined ? {} : { logger }) })
  })
}

/** Late news of an old session would be about nothing. */
export function ignoreNews(client: Client): void {
  for (const method of METHODS) client.removeNotificationHandler(method)
}
