//! Cluster map, views, lease arithmetic, replica-set tables.
