mod behaviour;
mod concurrent;
mod copies;
mod faults;
mod layers;
mod model;
