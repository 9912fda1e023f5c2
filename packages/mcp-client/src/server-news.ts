import type { Client } from '@modelcontextprotocol/sdk/client/index.js'
import {
  LoggingMessageNotificationSchema,
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import type { LoggingMessageNotification, Notification } from '@modelcontextprotocol/sdk/types.js'

import type { MessageOrigin } from './session-calls.ts'

/** A log message of the server. */
export interface ServerLog {
  readonly level: LoggingMessageNotification['params']['level']
  readonly logger?: string | undefined
  readonly data: unknown
  /** What is known about the call that it belongs to, for clients that have `handlers`. */
  readonly origin?: MessageOrigin | undefined
}

/** What a server tells on its own, in the present session. */
export interface ServerNews {
  toolsChanged(): void
  promptsChanged(): void
  resourcesChanged(): void
  resourceUpdated(uri: string): void
  logged(message: ServerLog, client: Client): void
}

/** Hands on what is news; what is none, and nobody else takes, is left alone. */
export function hearNews(client: Client, news: ServerNews): void {
  // The one handler for all that has none of its own: with one for each, the SDK's client weighs a fifth more.
  client.fallbackNotificationHandler = async (notification) => tell(news, notification, client)
}

/** Late news of an old session would be about nothing. */
export function ignoreNews(client: Client): void {
  client.fallbackNotificationHandler = async () => {}
}

/** @throws ZodError for one whose parameters are not what its method stands for. */
function tell(news: ServerNews, notification: Notification, client: Client): void {
  switch (notification.method) {
    case 'notifications/tools/list_changed':
      ToolListChangedNotificationSchema.parse(notification)
      return news.toolsChanged()
    case 'notifications/prompts/list_changed':
      PromptListChangedNotificationSchema.parse(notification)
      return news.promptsChanged()
    case 'notifications/resources/list_changed':
      ResourceListChangedNotificationSchema.parse(notification)
      return news.resourcesChanged()
    case 'notifications/resources/updated': {
      const { params } = ResourceUpdatedNotificationSchema.parse(notification)
      return news.resourceUpdated(params.uri)
    }
    case 'notifications/message': {
      const { level, logger, data } = LoggingMessageNotificationSchema.parse(notification).params
      return news.logged({ level, data, ...(logger === undefined ? {} : { logger }) }, client)
    }
  }
}
