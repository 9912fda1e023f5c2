/** What a request has in common with its tool. */
export type RequestClass =
  | 'name' // it contains the tool's name
  | 'words' // it uses words of the tool's description
  | 'synonyms' // it says the same in other words
  | 'servers' // several servers have such a tool, and it says which server
  | 'unseen' // any of these
  | 'held-out' // the same, written later

/** A request as a user phrases it, and the tools that serve it: `server/tool`, with the tool's name on the server. */
export interface SearchRequest {
  readonly of: RequestClass
  readonly text: string
  readonly tools: readonly string[]
}

/**
 * 100 requests for the tools of the catalogue. They were written from the names of the tools, before the index. Its weights
 * and synonyms were then chosen with them, so they say too much about it: {@link UNSEEN} says how it does with others.
 */
export const REQUESTS: readonly SearchRequest[] = [
  ...requests('name', [
    ['Run list_allowed_directories', 'files/list_allowed_directories'],
    ['call pods_list_in_namespace for "billing"', 'kubernetes/pods_list_in_namespace'],
    ['Please use browser_take_screenshot', 'playwright/browser_take_screenshot'],
    ['select:generate_sankey_chart', 'chart/generate_sankey_chart'],
    ['API-post-search', 'notion/API-post-search'],
    ['gitlab_create_merge_request', 'gitlab/create_merge_request'],
    ['lighthouse_audit', 'devtools/lighthouse_audit'],
    ['I need the tool mobile_batch_commands', 'mobile/mobile_batch_commands'],
    ['whoami', 'gitlab/whoami'],
    ['github create_pull_request_review', 'github/create_pull_request_review'],
    ['add_observations and delete_observations', 'memory/add_observations'],
    ['select:resources_scale', 'kubernetes/resources_scale'],
  ]),
  ...requests('words', [
    ['Read several files at once', 'files/read_multiple_files'],
    ['Show me the directory tree of the project', 'files/directory_tree'],
    ['Move this file into the archive folder', 'files/move_file'],
    ['Create a new directory for the reports', 'files/create_directory'],
    ['Which directories am I allowed to access?', 'files/list_allowed_directories'],
    ['Read the whole knowledge graph', 'memory/read_graph'],
    ['Create relations between Ada and the engine team', 'memory/create_relations'],
    [
      'Handle the confirm dialog of the page',
      'playwright/browser_handle_dialog',
      'devtools/handle_dialog',
    ],
    [
      'Navigate back to the previous page',
      'playwright/browser_navigate_back',
      'devtools/navigate_page',
    ],
    [
      'Which network requests did the page send?',
      'playwright/browser_network_requests',
      'devtools/list_network_requests',
    ],
    ['Stop the performance trace', 'devtools/performance_stop_trace'],
    ['Take a heap snapshot', 'devtools/take_heapsnapshot'],
    ['Get the logs of the pod checkout-7d9', 'kubernetes/pods_log'],
    ['List all namespaces of the cluster', 'kubernetes/namespaces_list'],
    [
      'Show the CPU and memory consumption of the nodes',
      'kubernetes/nodes_top',
      'kubernetes/nodes_stats_summary',
    ],
    ['Execute a command in a pod', 'kubernetes/pods_exec'],
    ['Fork the repository into my account', 'github/fork_repository', 'gitlab/fork_repository'],
    ['Search code for uses of parseArgs', 'github/search_code'],
    ['Get the list of files changed in a pull request', 'github/get_pull_request_files'],
    ['Merge the pull request', 'github/merge_pull_request'],
    ['Approve the merge request', 'gitlab/approve_merge_request'],
    ['List the protected branches of the project', 'gitlab/list_protected_branches'],
    ['Publish a draft note', 'gitlab/publish_draft_note'],
    ['List the members of a group', 'gitlab/list_group_members'],
    ['Mark all todos as done', 'gitlab/mark_all_todos_done'],
    ['Create a label for bugs', 'gitlab/create_label'],
    ['Add a comment to the Notion page', 'notion/API-create-a-comment'],
    ['Query a data source with a filter', 'notion/API-query-data-source'],
    ['Draw a pie chart of the sales', 'chart/generate_pie_chart'],
    ['Generate a mind map', 'chart/generate_mind_map'],
    ['Install an app on the device', 'mobile/mobile_install_app'],
    ['Set the orientation of the phone to landscape', 'mobile/mobile_set_orientation'],
    ['Start the recording of the screen of my phone', 'mobile/mobile_start_screen_recording'],
    ['Get the screen size of the device', 'mobile/mobile_get_screen_size'],
  ]),
  ...requests('synonyms', [
    ['What does config.yaml contain?', 'files/read_text_file', 'files/read_file'],
    ['How big is the file, and when was it last changed?', 'files/get_file_info'],
    ['Rename notes.txt to notes.md', 'files/move_file'],
    ['Replace a line in a source file', 'files/edit_file'],
    ['Find all markdown documents below docs', 'files/search_files'],
    ['Which folders take the most space?', 'files/list_directory_with_sizes'],
    ['Remember that Ada works at the harbour', 'memory/add_observations', 'memory/create_entities'],
    ['Forget everything you know about Bob', 'memory/delete_entities'],
    ['Look up what we noted about the customer', 'memory/search_nodes'],
    [
      'Go to example.com in the browser',
      'playwright/browser_navigate',
      'devtools/navigate_page',
      'devtools/new_page',
    ],
    [
      'Take a picture of the web page',
      'playwright/browser_take_screenshot',
      'devtools/take_screenshot',
    ],
    ['Hit the Enter key', 'playwright/browser_press_key', 'devtools/press_key'],
    ['Choose "Germany" in the country dropdown', 'playwright/browser_select_option'],
    [
      'Run some JavaScript on the page',
      'playwright/browser_evaluate',
      'devtools/evaluate_script',
      'playwright/browser_run_code_unsafe',
    ],
    [
      'Why is this site so slow?',
      'devtools/performance_start_trace',
      'devtools/performance_analyze_insight',
      'devtools/lighthouse_audit',
    ],
    ['Pretend to be on a slow 3G connection', 'devtools/emulate'],
    [
      'Are there any errors in the JavaScript console?',
      'playwright/browser_console_messages',
      'devtools/list_console_messages',
    ],
    ['Kill the crashed container', 'kubernetes/pods_delete'],
    ['Start an nginx container in the cluster', 'kubernetes/pods_run'],
    ['Apply this yaml manifest to the cluster', 'kubernetes/resources_create_or_update'],
    ['Increase the replicas of the deployment to five', 'kubernetes/resources_scale'],
    ['What happened in the cluster lately?', 'kubernetes/events_list'],
    ['Report a bug in the repository', 'github/create_issue', 'gitlab/create_issue'],
    ['Did the checks of my PR pass?', 'github/get_pull_request_status'],
    ['Open a PR from my feature branch', 'github/create_pull_request'],
    ['Who wrote this line of code?', 'gitlab/get_file_blame'],
    ['Remove the branch after the merge', 'gitlab/delete_branch'],
    ['What tickets are assigned to me?', 'gitlab/my_issues'],
    ['Give the merge request a thumbs up', 'gitlab/create_merge_request_emoji_reaction'],
    ['Is my .gitlab-ci.yml correct?', 'gitlab/validate_ci_lint', 'gitlab/validate_project_ci_lint'],
    ['Write a new document in Notion', 'notion/API-post-page'],
    ['Show how our conversion drops from visit to purchase', 'chart/generate_funnel_chart'],
    ['Plot the temperature over the last year', 'chart/generate_line_chart'],
    ['Show who reports to whom in the company', 'chart/generate_organization_chart'],
    [
      'Visualise the distribution of response times',
      'chart/generate_histogram_chart',
      'chart/generate_boxplot_chart',
      'chart/generate_violin_chart',
    ],
    ['Quit the app on my phone', 'mobile/mobile_terminate_app'],
    ['Fake the GPS position of the phone', 'mobile/mobile_set_location'],
    ['Scroll down in the app on the phone', 'mobile/mobile_swipe_on_screen'],
  ]),
  ...requests('servers', [
    ['Create an issue on GitHub', 'github/create_issue'],
    ['Create an issue in GitLab', 'gitlab/create_issue'],
    ['Show the commits of the GitLab project', 'gitlab/list_commits'],
    ['List the commits of a branch on github', 'github/list_commits'],
    ['Search for repositories on GitHub', 'github/search_repositories'],
    [
      'Take a screenshot of the phone',
      'mobile/mobile_take_screenshot',
      'mobile/mobile_save_screenshot',
    ],
    ['Take a screenshot with the devtools', 'devtools/take_screenshot'],
    ['Click the button with playwright', 'playwright/browser_click'],
    ['Type text into the app on the mobile device', 'mobile/mobile_type_keys'],
    ['Comment on an issue on GitHub', 'github/add_issue_comment'],
    ['Comment on an issue in GitLab', 'gitlab/create_issue_note', 'gitlab/create_note'],
    ['Read a file from the GitLab repository', 'gitlab/get_file_contents'],
    ['Read a file on my disk', 'files/read_text_file', 'files/read_file'],
    ['Search for a page in Notion', 'notion/API-post-search'],
    ['Delete a Notion block', 'notion/API-delete-a-block'],
    ['Fill in the form with playwright', 'playwright/browser_fill_form'],
  ]),
]

/**
 * 50 requests for tools that were drawn at random. They were written when the index was finished, and say how it does with
 * requests that it was not made for. Only the rule for names of files was changed after them: 39 were found before.
 */
export const UNSEEN: readonly SearchRequest[] = requests('unseen', [
  ['Which files match *.test.ts?', 'files/search_files'],
  ['Add a new label "urgent" to the project', 'gitlab/create_label'],
  [
    'What changed in merge request 12?',
    'gitlab/get_merge_request_diffs',
    'gitlab/list_merge_request_diffs',
    'gitlab/list_merge_request_changed_files',
    'gitlab/get_merge_request',
  ],
  ['Show my current kubeconfig', 'kubernetes/configuration_view'],
  ['Close the browser', 'playwright/browser_close', 'devtools/close_page'],
  ['Which issues are linked to issue 7?', 'gitlab/list_issue_links'],
  ['Show version 3 of the merge request', 'gitlab/get_merge_request_version'],
  ['Are there warnings in the cluster?', 'kubernetes/events_list'],
  ['Scale the web deployment down to zero', 'kubernetes/resources_scale'],
  ['Show me logcat of the Android phone', 'mobile/mobile_get_device_logs'],
  ['What folders can you read?', 'files/list_allowed_directories'],
  [
    'Make a screenshot of the current page',
    'playwright/browser_take_screenshot',
    'devtools/take_screenshot',
  ],
  ['Find the page called Roadmap in Notion', 'notion/API-post-search'],
  ['Look for a memory leak on this page', 'devtools/take_heapsnapshot'],
  ['Show the site in dark mode', 'playwright/browser_emulate_media', 'devtools/emulate'],
  ['Is CI green on pull request 45?', 'github/get_pull_request_status'],
  ['Show all open issues of the GitLab project', 'gitlab/list_issues'],
  [
    'Compare the revenue of the four regions with vertical bars',
    'chart/generate_column_chart',
    'chart/generate_bar_chart',
  ],
  ['Which templates does the Notion data source have?', 'notion/API-list-data-source-templates'],
  ['Move the mouse over the menu', 'playwright/browser_hover', 'devtools/hover'],
  ['Enter my name into the focused field on the phone', 'mobile/mobile_type_keys'],
  ['Load the image logo.png from disk', 'files/read_media_file'],
  ['Save a picture of the phone screen to a file', 'mobile/mobile_save_screenshot'],
  ['Show the relationship between height and weight', 'chart/generate_scatter_chart'],
  ['Turn the phone sideways', 'mobile/mobile_set_orientation'],
  ['Bring the PR branch up to date with main', 'github/update_pull_request_branch'],
  ['Press the home button of the device', 'mobile/mobile_press_button'],
  ['Details of a CI/CD catalog component', 'gitlab/get_ci_catalog_resource'],
  ['Open these five files together', 'files/read_multiple_files'],
  ['Which files does PR 8 touch?', 'github/get_pull_request_files'],
  ['Change the text of a block in Notion', 'notion/API-update-a-block'],
  ['Tick off my first GitLab to-do', 'gitlab/mark_todo_done'],
  ['Upload my CV on this page', 'playwright/browser_file_upload', 'devtools/upload_file'],
  ['Show disk usage as nested rectangles', 'chart/generate_treemap_chart'],
  [
    'Check the CI configuration of project 9',
    'gitlab/validate_project_ci_lint',
    'gitlab/validate_ci_lint',
  ],
  [
    'What is the value of the Status property of the Notion page?',
    'notion/API-retrieve-a-page-property',
  ],
  ['Print the file README.md', 'files/read_file', 'files/read_text_file'],
  ['Draw the connections between the services', 'chart/generate_network_graph'],
  ['Make "main" the default branch', 'gitlab/update_default_branch'],
  [
    'Compare the distributions of the three groups',
    'chart/generate_violin_chart',
    'chart/generate_boxplot_chart',
    'chart/generate_histogram_chart',
  ],
  ['List the folder with the size of each file', 'files/list_directory_with_sizes'],
  ['Double tap the photo on the phone', 'mobile/mobile_double_tap_on_screen'],
  ['Close issue 12 on GitHub', 'github/update_issue'],
  ['Give the reserved phone back', 'mobile/mobile_release_remote_device'],
  ['What do you know about Ada?', 'memory/search_nodes', 'memory/open_nodes', 'memory/read_graph'],
  [
    'Submit my pending review comment',
    'gitlab/publish_draft_note',
    'gitlab/bulk_publish_draft_notes',
  ],
  [
    'What happened in the GitLab project last week?',
    'gitlab/get_project_events',
    'gitlab/list_events',
  ],
  ['Is this .gitlab-ci.yml valid?', 'gitlab/validate_ci_lint', 'gitlab/validate_project_ci_lint'],
  ['Answer in the issue on GitHub', 'github/add_issue_comment'],
  ['What resolution has the phone display?', 'mobile/mobile_get_screen_size'],
])

/** Makes requests of a class from texts and tools. */
export function requests(
  of: RequestClass,
  lines: readonly (readonly [text: string, ...tools: readonly string[]])[],
): readonly SearchRequest[] {
  return lines.map(([text, ...tools]) => ({ of, text, tools }))
}
